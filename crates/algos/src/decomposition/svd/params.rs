//! What can be chosen of a truncated singular value decomposition, and the values that were checked.

use crate::options::{Kind, Opt, OptionError, Preset, Settings, Table, Target};

/// What can be chosen.
pub const TABLE: Table = Table {
    name: "svd",
    class: "TruncatedSVD",
    about: "Find the directions along which rows are longest, without taking means off",
    detail: "\
A truncated singular value decomposition, of dense and sparse rows: what text mining calls latent semantic analysis. A few random
directions are multiplied by the rows and their transpose in every round, and made orthonormal again; where columns are so few
that all products of columns cost less, one round sums these. Signs are scikit-learn's: the largest entry of each component is
positive.",
    target: Target::None,
    weighted: false,
    sparse: true,
    dtype: None,
    options: &[
        Opt {
            name: "n_components",
            flag: "components",
            kind: Kind::Integer { min: 1, max: 1 << 32 },
            words: &[],
            default: Preset::Integer(2),
            typed: false,
            help: "How many components",
            detail: "",
        },
        Opt {
            name: "algorithm",
            flag: "algorithm",
            kind: Kind::Word,
            words: &[
                ("randomized", "random directions, turned by rounds, or all products of few columns"),
                ("arpack", "all products of columns, however many"),
            ],
            default: Preset::Word("randomized"),
            typed: false,
            help: "How components are found",
            detail: "",
        },
        Opt {
            name: "n_iter",
            flag: "power-rounds",
            kind: Kind::Integer { min: 0, max: 10_000 },
            words: &[],
            default: Preset::Integer(5),
            typed: false,
            help: "Rounds of the randomised method, besides its first and its last",
            detail: "",
        },
        Opt {
            name: "n_oversamples",
            flag: "oversamples",
            kind: Kind::Integer { min: 1, max: 1 << 20 },
            words: &[],
            default: Preset::Integer(10),
            typed: false,
            help: "Random directions beyond the components that are asked for",
            detail: "",
        },
        Opt {
            name: "random_state",
            flag: "seed",
            kind: Kind::Seed,
            words: &[],
            default: Preset::Integer(0),
            typed: false,
            help: "Seed of the random directions",
            detail: "",
        },
    ],
    examples: &[
        "fit svd words.svm --components 100 --out words.model",
        "predict words.model new.svm --out topics.npy",
    ],
};

/// Values of the options. A value that exists is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    pub(super) components: usize,
    pub(super) by_products: bool,
    pub(super) power_rounds: u64,
    pub(super) oversamples: usize,
    pub(super) seed: u64,
}

impl Params {
    /// Everything as by default, with so many components.
    ///
    /// Panics for none at all.
    pub fn new(components: usize) -> Params {
        assert!(components > 0, "a decomposition has a component");
        Params { components, by_products: false, power_rounds: 5, oversamples: 10, seed: 0 }
    }

    /// What settings of [`TABLE`] say.
    pub fn from_settings(settings: &Settings) -> Result<Params, OptionError> {
        Ok(Params {
            components: settings.count("n_components")?,
            by_products: settings.word("algorithm")? == Some("arpack"),
            power_rounds: settings.integer("n_iter")?,
            oversamples: settings.count("n_oversamples")?,
            seed: settings.integer("random_state")?,
        })
    }

    /// Whether all products of columns are summed: by choice, or since multiplying directions in every round would cost more.
    pub(super) fn sums_products(&self, columns: usize) -> bool {
        let directions = self.components.saturating_add(self.oversamples);
        let multiplied = directions.saturating_mul(self.power_rounds as usize + 2);
        // Half of all products, against two for each direction and column.
        self.by_products || columns <= multiplied.saturating_mul(4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Spelling;

    #[test]
    fn defaults_of_the_table_and_of_the_params_agree() {
        let mut settings = Settings::new(&TABLE, Spelling::Python);
        assert_eq!(Params::from_settings(&settings), Ok(Params::new(2)));
        settings.set_text("algorithm", "arpack").unwrap();
        assert!(Params::from_settings(&settings).unwrap().sums_products(100_000));
        assert!(Params::new(2).sums_products(64) && !Params::new(2).sums_products(10_000));
    }
}
