//! Types of indices, so that an index into one table cannot be used for another.

/// Defines an index that is stored as `u32`. [`index_vec::define_index_type`] would also implement comparisons between
/// `usize` and the index: they make the type of `[]` in `assert_eq!(pods, [])` ambiguous in each crate that depends on
/// this one.
macro_rules! index_type {
    ($(#[$attribute:meta])* $visibility:vis struct $name:ident;) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        $visibility struct $name(u32);

        impl index_vec::Idx for $name {
            #[inline(always)]
            fn from_usize(index: usize) -> Self {
                Self(index as u32)
            }

            #[inline(always)]
            fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

pub(crate) use index_type;
