//! Mail on a crew of the user's own, and what is told where none is carried.

use qjam::engine::{Assignment, Caps, Crew, CrewWorker, Outcome, StateSource, Workplace};
use qjam::{Ctx, DataSet, Dense, Error, Master, State, Wire};
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Wire)]
struct Heard(Vec<f64>);

impl State for Heard {
    type Chunk = Dense<f64>;
    fn init(_: &Dense<f64>, _: &Ctx) -> Self {
        Heard(Vec::new())
    }
}

/// Tells everybody after it in a ring of five what it has, if it is to tell anything.
#[qjam::map]
fn tell(speaks: &bool, x: &Dense<f64>, heard: &mut Heard, ctx: &Ctx) -> u64 {
    heard.0.extend(ctx.mail::<f64>().iter().map(|letter| letter.value));
    if *speaks {
        ctx.send((ctx.chunk() + 1) % 5, &(x.as_slice()[0] + heard.0.len() as f64));
    }
    heard.0.len() as u64
}

/// One workplace of two slots.
struct OnePlace {
    place: Workplace,
    carries_mail: bool,
}

impl Crew for OnePlace {
    fn caps(&self) -> Caps {
        let mut caps = Caps::CREW;
        (caps.keeps_state, caps.carries_mail) = (true, self.carries_mail);
        caps
    }

    fn workers(&self) -> Vec<CrewWorker> {
        vec![CrewWorker { name: "the place".into(), pid: None, same_machine: true, slots: 2 }]
    }

    fn run(&self, job: Assignment) -> Outcome {
        let source = StateSource { states: Vec::new(), recipe: job.recipe() };
        let order = Arc::new(job.order);
        let ran = self.place.run(&order, 0..order.blocks(), source, job.cancelled);
        order.outcome(ran.map(|delivered| vec![delivered.parts]))
    }
}

fn master(carries_mail: bool) -> Master {
    let place = Workplace::new(2, 1 << 20).unwrap();
    Master::builder().crew(Arc::new(OnePlace { place, carries_mail })).unwrap()
}

fn data() -> DataSet<Dense<f64>> {
    DataSet::dense((0..5).map(f64::from).collect(), 1).unwrap().partitions(5).unwrap()
}

#[test]
fn a_crew_that_says_so_carries_mail() {
    let heard = |m: Master| {
        let mut held = m.hold::<Heard>(&data()).unwrap();
        let counts: Vec<u64> = (0..4).map(|_| held.run(tell, &true).unwrap()).collect();
        assert_eq!(counts, [0, 5, 10, 15]);
        held.collect().unwrap()
    };
    assert_eq!(heard(master(true)), heard(Master::connect("local:2").unwrap()));
}

#[test]
fn where_no_mail_is_carried_a_round_that_sends_is_refused_by_name() {
    let m = master(false);
    let mut held = m.hold::<Heard>(&data()).unwrap();
    for _ in 0..2 {
        assert_eq!(held.run(tell, &false).unwrap(), 0, "nobody has sent anything");
        match held.run(tell, &true).unwrap_err() {
            Error::NoMail { function, .. } => assert!(function.ends_with("tell"), "{function}"),
            other => panic!("{other}"),
        }
    }
}

#[qjam::map]
fn no_state(_: &(), x: &Dense<f64>, ctx: &Ctx) -> f64 {
    ctx.send(0, &1.0);
    x.as_slice()[0]
}

#[test]
fn a_function_without_a_state_that_sends_is_told_what_has_mail() {
    let error = Master::connect("local:2").unwrap().run(no_state, &(), &data()).unwrap_err();
    assert!(error.to_string().contains("only functions that change a state have mail"), "{error}");
    assert!(error.fault().unwrap().fault.location.as_ref().unwrap().contains("state/mail.rs"), "{error}");
}
