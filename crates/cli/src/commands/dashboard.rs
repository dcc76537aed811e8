//! The live page: beside a command that runs a master, and of a run of another program.

use super::report::open;
use super::runs::named;
use crate::args::Watch;
use crate::output;
use anyhow::Context;
use qjam::Master;
use qjam_dashboard::live::Dashboard;

/// Serves the page of a master's run, if that is wanted, until what it returns is dropped. That must be after the master, so that
/// pages are told how the run ended, also by an error: the variable is declared before it.
pub(super) fn of(master: &Master, is_wanted: bool) -> anyhow::Result<Option<Dashboard>> {
    if !is_wanted {
        return Ok(None);
    }
    let file = master.run_file().context(
        "there is no dashboard, since it reads the run file and this run writes none: QJAM_RUNS is `off`, or its folder cannot be written",
    )?;
    let dashboard = Dashboard::start(&file)?;
    output::note(&format!("dashboard: {}", dashboard.link()));
    Ok(Some(dashboard))
}

/// Serves the page of any run of this user until the command is interrupted.
pub(crate) fn watch(args: &Watch) -> anyhow::Result<()> {
    let run = named(&args.run)?;
    let dashboard = Dashboard::start(&run.path)?;
    output::line(dashboard.link());
    output::note(&format!("this is the page of run {}; Ctrl-C ends it", run.id));
    // Without a browser the link is of use all the same.
    if args.open
        && let Err(e) = open(dashboard.link().as_ref())
    {
        output::note(&e.to_string());
    }
    loop {
        std::thread::park();
    }
}
