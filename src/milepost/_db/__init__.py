"""What savers and stores on databases share: operations, engines, migrations, group commit."""
