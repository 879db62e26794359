import { render } from "preact";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/parts.css";
import "./styles/threads.css";
import "./styles/thread.css";
import "./styles/values.css";
import "./styles/graph.css";
import "./styles/pages.css";
import { App } from "./views/App";
import { connect } from "./model/app";

// The token has become a cookie: it need not stay in the address, the history or a screenshot.
if (new URLSearchParams(location.search).has("token")) {
  history.replaceState(null, "", location.pathname + location.hash);
}
void connect();
render(<App />, document.getElementById("app")!);
