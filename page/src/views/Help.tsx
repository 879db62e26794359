import { info } from "../model/app";
import { Dialog } from "../ui/dialog";

const keys: [string, [string[], string][]][] = [
  [
    "Everywhere",
    [
      [["/"], "Search"],
      [["1", "2", "3"], "Threads, Store, Stats"],
      [["Esc"], "Close, clear, or go back"],
      [["?"], "This help"],
    ],
  ],
  [
    "In the list of threads",
    [
      [["j", "k"], "Next and previous thread"],
      [["Enter"], "Open the thread"],
    ],
  ],
  [
    "In a thread",
    [
      [["j", "k"], "Older and newer checkpoint"],
      [["p"], "The checkpoint that this one comes from"],
      [["g"], "The newest checkpoint; follows a run"],
      [["s", "m", "d"], "State, messages, changes of this step"],
      [["c"], "Compare with this checkpoint"],
    ],
  ],
];

export function Help({ close }: { close: () => void }) {
  return (
    <Dialog title="Keys" close={close} class="help">
      {keys.map(([title, rows]) => (
        <section key={title}>
          <h3>{title}</h3>
          <dl class="keys">
            {rows.map(([names, text]) => (
              <div key={text} class="keys-row">
                <dt>
                  {names.map((name) => (
                    <kbd key={name}>{name}</kbd>
                  ))}
                </dt>
                <dd>{text}</dd>
              </div>
            ))}
          </dl>
        </section>
      ))}
      <p class="help-foot">milepost {info.value?.version}</p>
    </Dialog>
  );
}
