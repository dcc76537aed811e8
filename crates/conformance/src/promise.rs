//! The list of promises, each with what an engine must be able to do before it promises that.

use crate::Engine;
use crate::promises::*;

/// What an engine must be able to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Workers that are threads of the master's process.
    Threads,
    /// Workers on the master's machine.
    SameMachine,
    /// Workers that can be killed, of which others take over.
    Victims,
    /// Workers that are processes of the master's own, on its machine: it starts, watches and ends each of them.
    OwnProcesses,
    /// Rounds that end although their function does not.
    Cancel,
    /// Functions that are told of the end of their round.
    HearsCancel,
    /// Workers that keep states between rounds.
    State,
    /// Workers that carry mail between partitions.
    Mail,
    /// Memory limits that are kept.
    MemoryLimit,
    /// Several rounds under way at once.
    SeveralRounds,
}

impl Need {
    /// Whether an engine has it.
    pub fn is_met(self, e: &Engine) -> bool {
        let own = e.caps.same_machine && e.caps.can_kill && e.caps.can_replace && !e.caps.in_process;
        match self {
            Need::Threads => e.caps.in_process,
            Need::SameMachine => e.caps.same_machine,
            Need::Victims => e.victims.is_some(),
            Need::OwnProcesses => own && e.victims.is_some(),
            Need::Cancel => e.caps.can_cancel && e.victims.is_some(),
            Need::HearsCancel => e.hears_cancel,
            Need::State => e.caps.keeps_state,
            Need::Mail => e.caps.carries_mail,
            Need::MemoryLimit => e.caps.limits_memory && own && e.victims.is_some(),
            Need::SeveralRounds => e.caps.several_rounds,
        }
    }
}

/// Something that engines promise.
#[derive(Clone, Copy)]
pub struct Promise {
    /// A sentence, after the name of its subject.
    pub name: &'static str,
    /// What it takes to promise it.
    pub needs: &'static [Need],
    /// Fails where the promise is not kept.
    pub check: fn(&Engine),
}

impl Promise {
    /// What an engine would need besides what it has.
    pub(crate) fn missing(&self, e: &Engine) -> Vec<Need> {
        self.needs.iter().copied().filter(|need| !need.is_met(e)).collect()
    }
}

macro_rules! promises {
    ($($subject:ident { $($name:ident: [$($need:ident),*],)* })*) => {
        pub(crate) const PROMISES: &[Promise] = &[$($(Promise {
            name: concat!(stringify!($subject), "::", stringify!($name)),
            needs: &[$(Need::$need),*],
            check: $subject::$name,
        },)*)*];
    };
}

promises! {
    bits {
        a_matrix_of_any_element_has_one_answer: [],
        records_lines_and_custom_data_have_one_answer: [],
        the_cut_that_was_asked_for_is_the_cut_that_is_run: [],
        a_fold_has_one_answer_however_wide_its_accumulator_is: [],
        random_numbers_belong_to_seed_round_and_chunk: [],
        a_function_knows_which_records_its_chunk_has: [],
        a_run_without_data_runs_once_per_slot: [],
    }
    cancel {
        an_endless_function_is_stopped: [Cancel],
        an_endless_function_can_be_cancelled_often: [Cancel],
        a_round_over_its_time_says_whom_it_waited_for: [HearsCancel],
        a_function_that_asks_is_not_killed: [HearsCancel, SameMachine],
        threads_that_never_return_are_left_behind: [Threads],
        very_long_limits_are_no_limits: [],
        a_round_cancelled_while_its_data_is_on_the_way_does_not_harm_the_next: [],
    }
    deaths {
        an_exit_is_told_with_its_code: [OwnProcesses],
        an_abort_and_a_signal_are_told_with_their_number: [OwnProcesses],
        a_bad_pointer_and_a_full_stack_are_told_as_signals: [OwnProcesses],
        an_allocation_over_the_limit_is_told_with_limit_and_size: [OwnProcesses, MemoryLimit],
        a_function_that_closes_files_that_are_not_its_own_harms_its_process_only: [OwnProcesses],
        a_function_that_always_kills_can_be_tried_again_and_again: [OwnProcesses],
        a_death_costs_only_what_was_not_delivered: [OwnProcesses],
        a_worker_killed_while_idle_is_started_again: [OwnProcesses],
        all_workers_may_be_killed_at_once_and_often: [OwnProcesses],
        workers_killed_faster_than_they_start_do_not_spoil_the_master: [OwnProcesses],
    }
    derived {
        derived_data_has_the_bits_of_a_walk_by_hand: [],
        samples_unions_and_numbers_are_the_same_everywhere: [],
        a_function_that_fails_names_the_chunk_of_the_source_the_record_and_the_chain: [],
        a_process_makes_what_is_kept_once_also_when_others_are_killed: [OwnProcesses],
        states_stay_with_the_chunks_of_derived_data: [State],
        sales_of_a_shop_are_reduced_where_they_are_made: [],
    }
    faults {
        a_panic_tells_message_line_chunk_worker_and_the_users_frames: [],
        a_panic_on_every_chunk_is_one_error: [],
        a_function_that_is_not_registered_is_told_with_those_that_look_like_it: [],
        results_that_do_not_go_together_say_which_field: [],
        text_that_is_no_text_is_told_with_its_line: [],
        records_that_panic_when_they_are_read_and_results_when_they_are_dropped_are_faults: [],
        user_code_that_panics_while_encoding_decoding_or_merging_is_a_fault_too: [],
        long_results_that_cannot_be_merged_are_one_error: [],
        rounds_under_way_do_not_suffer_from_one_that_fails: [SeveralRounds, SameMachine],
    }
    files {
        files_larger_than_what_workers_keep_have_one_answer: [],
        a_file_that_changed_after_the_data_set_was_made_is_named: [],
        a_file_that_changes_in_the_middle_of_a_round_is_named_with_the_chunk: [SameMachine],
        the_same_content_in_another_file_is_read_from_there: [],
    }
    kills {
        any_number_of_kills_leaves_the_bits_alone: [Victims],
        twenty_rounds_with_a_death_in_each_have_the_bits_of_an_undisturbed_run: [Victims],
        workers_take_over_from_each_other_in_several_rounds_at_once: [Victims, SeveralRounds],
        a_loss_costs_the_bytes_that_the_dead_one_had: [OwnProcesses],
        stopped_workers_are_suspected_woken_or_lost_and_the_bits_stay: [OwnProcesses],
    }
    leaks {
        data_sets_that_are_gone_are_given_back: [SameMachine],
        thousands_of_rounds_hold_no_more_than_a_hundred: [SameMachine],
        shared_memory_is_used_again: [SameMachine, SeveralRounds],
        many_rounds_at_once_leave_as_little_as_one: [SameMachine, SeveralRounds],
        early_deliveries_share_a_few_arenas: [OwnProcesses],
        cancelled_rounds_give_everything_back: [SameMachine],
        deaths_give_everything_back: [OwnProcesses],
        masters_that_are_gone_are_given_back: [SameMachine],
    }
    lifecycle {
        dropping_the_master_leaves_no_child: [OwnProcesses],
        dropping_a_master_whose_workers_are_being_started_leaves_no_child: [OwnProcesses],
        a_program_that_ends_in_the_middle_of_a_round_leaves_nobody: [OwnProcesses],
        a_killed_program_leaves_nobody_also_when_workers_are_stopped: [OwnProcesses],
        a_program_killed_while_it_starts_workers_leaves_nobody: [OwnProcesses],
    }
    limits {
        with_few_files_there_is_an_error_or_the_value: [OwnProcesses],
        a_memory_limit_that_allows_nothing_is_told: [MemoryLimit],
        a_hundred_thousand_chunks_have_one_answer: [],
    }
    logs {
        every_line_arrives_under_its_workers_name_and_in_order: [OwnProcesses],
        a_million_lines_are_bounded_counted_and_harmless: [OwnProcesses],
        raw_bytes_on_standard_output_do_no_harm: [OwnProcesses],
        a_listener_that_panics_or_is_slow_costs_no_round: [OwnProcesses],
        what_user_code_started_ends_with_the_master: [OwnProcesses],
        what_user_code_started_ends_with_its_process: [OwnProcesses],
    }
    mail {
        letters_come_once_in_the_next_round_and_in_their_order: [Mail],
        rounds_without_a_value_deliver_nothing_and_take_no_letter_away: [Mail, HearsCancel],
        a_worker_killed_between_sending_and_reading_costs_no_letter: [Mail, Victims],
        a_run_that_goes_on_finds_its_mail: [Mail],
        letters_to_nobody_and_letters_of_another_type_are_told: [Mail],
    }
    pending {
        rounds_may_be_waited_for_in_any_order: [],
        rounds_with_long_parameters_do_not_overwrite_each_other: [],
        a_cut_that_was_made_twice_is_forgotten_with_the_last: [],
        several_threads_share_a_master: [SeveralRounds],
        a_round_goes_on_while_nobody_waits: [],
        a_dropped_round_is_cancelled: [Threads],
        a_round_that_outlives_its_master_gets_an_error: [SeveralRounds, HearsCancel],
        several_masters_do_not_know_of_each_other: [],
    }
    reduction {
        each_worker_sends_about_one_partial_result: [OwnProcesses],
        every_chunk_is_counted_once_in_the_report: [],
        a_fold_that_says_how_wide_its_accumulator_is_has_fewer_and_the_same_bits_everywhere: [],
        results_as_long_as_their_data_are_told_and_another_cut_mends_it: [],
    }
    results {
        nested_results_have_one_value: [],
        maps_are_merged_key_by_key_and_have_the_same_bytes: [],
        numbers_that_are_none_are_carried_bit_by_bit: [],
        however_often_results_are_delivered_the_bits_are_the_same: [],
        results_and_parameters_of_any_size_come_home: [],
    }
    states {
        what_failed_or_was_cancelled_has_changed_nothing_and_bits_are_those_of_threads: [State, HearsCancel],
        several_masters_keep_their_states_apart: [State],
        a_run_that_goes_on_makes_the_states_again: [State],
        a_look_at_states_that_are_being_changed_waits_for_its_turn: [State],
        a_step_that_only_reads_changes_nothing: [State],
    }
    views {
        results_of_many_rounds_at_once_do_not_overwrite_each_other: [SeveralRounds],
        what_is_taken_over_as_it_came_is_the_users_own: [Victims],
        results_may_become_longer_from_round_to_round: [],
        a_worker_that_is_killed_while_results_travel_leaves_the_bits_alone: [Victims],
    }
}
