//! Numbers of a router's parts, and packet handles: distinct types, so that a path's number cannot
//! index outputs.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// A type of numbers that index an [`IdVec`].
pub trait Id: Copy {
    /// Returns the id of this number.
    fn from_index(index: usize) -> Self;

    /// Returns the number.
    fn index(self) -> usize;
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(pub usize);

        impl Id for $name {
            #[inline]
            fn from_index(index: usize) -> Self {
                Self(index)
            }

            #[inline]
            fn index(self) -> usize {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

ids! {
    /// The number of an input in the plan.
    InputId
    /// The number of an output in the plan.
    OutputId
    /// The number of a path in the plan.
    PathId
    /// The number of a process: those of inputs first, then of paths, then of outputs.
    ProcessId
    /// The number of a port; the input and the output of this number are the port's.
    PortId
    /// The number of a core.
    CoreId
}

impl From<InputId> for PortId {
    #[inline]
    fn from(input: InputId) -> Self {
        Self(input.0)
    }
}

impl From<OutputId> for PortId {
    #[inline]
    fn from(output: OutputId) -> Self {
        Self(output.0)
    }
}

impl From<PortId> for InputId {
    #[inline]
    fn from(port: PortId) -> Self {
        Self(port.0)
    }
}

impl From<PortId> for OutputId {
    #[inline]
    fn from(port: PortId) -> Self {
        Self(port.0)
    }
}

/// A machine's handle of a packet; the router does not interpret it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct PacketHandle(u64);

impl PacketHandle {
    /// Creates the handle with these bits.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns the bits of the handle.
    #[inline]
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }
}

/// A vector that ids of one type index.
#[derive(Clone, PartialEq, Eq)]
pub struct IdVec<I, T> {
    items: Vec<T>,
    ids: PhantomData<fn(I) -> I>,
}

impl<I: Id, T> IdVec<I, T> {
    /// Creates an empty vector.
    #[must_use]
    pub const fn new() -> Self {
        Self { items: Vec::new(), ids: PhantomData }
    }

    /// Creates a vector of `count` equal elements.
    #[must_use]
    pub fn repeat(item: T, count: usize) -> Self
    where
        T: Clone,
    {
        vec![item; count].into()
    }

    /// Returns the number of elements.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns whether there are no elements.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Appends an element and returns its id.
    pub fn push(&mut self, item: T) -> I {
        self.items.push(item);
        I::from_index(self.items.len() - 1)
    }

    /// Returns an element; `None` if `id` is out of range.
    #[inline]
    #[must_use]
    pub fn get(&self, id: I) -> Option<&T> {
        self.items.get(id.index())
    }

    /// Returns an element, mutably; `None` if `id` is out of range.
    #[inline]
    #[must_use]
    pub fn get_mut(&mut self, id: I) -> Option<&mut T> {
        self.items.get_mut(id.index())
    }

    /// Returns the ids of all elements, in order.
    #[inline]
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = I> + ExactSizeIterator + use<I, T> {
        (0..self.items.len()).map(I::from_index)
    }

    /// Returns the elements in order.
    #[inline]
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.items.iter()
    }

    /// Returns the elements in order, mutably.
    #[inline]
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.items.iter_mut()
    }

    /// Returns the elements in order, with their ids.
    #[inline]
    pub fn enumerate(&self) -> impl DoubleEndedIterator<Item = (I, &T)> {
        self.items.iter().enumerate().map(|(index, item)| (I::from_index(index), item))
    }

    /// Returns the elements as a slice.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        &self.items
    }
}

impl<I, T: fmt::Debug> fmt::Debug for IdVec<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.items.fmt(f)
    }
}

impl<I, T> Default for IdVec<I, T> {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl<I, T> From<Vec<T>> for IdVec<I, T> {
    fn from(items: Vec<T>) -> Self {
        Self { items, ids: PhantomData }
    }
}

impl<I, T> FromIterator<T> for IdVec<I, T> {
    fn from_iter<A: IntoIterator<Item = T>>(items: A) -> Self {
        Vec::from_iter(items).into()
    }
}

impl<I, T> Extend<T> for IdVec<I, T> {
    fn extend<A: IntoIterator<Item = T>>(&mut self, items: A) {
        self.items.extend(items);
    }
}

impl<I, T> IntoIterator for IdVec<I, T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter()
    }
}

impl<'a, I, T> IntoIterator for &'a IdVec<I, T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}

impl<'a, I, T> IntoIterator for &'a mut IdVec<I, T> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter_mut()
    }
}

impl<I: Id, T> Index<I> for IdVec<I, T> {
    type Output = T;

    #[inline]
    fn index(&self, id: I) -> &T {
        &self.items[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for IdVec<I, T> {
    #[inline]
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.items[id.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_found_by_their_ids() {
        let mut names: IdVec<PathId, &str> = IdVec::new();
        assert!(names.is_empty());
        let (first, second) = (names.push("a"), names.push("b"));
        names[first] = "c";
        assert_eq!((names[first], names[second]), ("c", "b"));
        assert_eq!(names.get(PathId(2)), None);
        assert!(names.ids().eq([PathId(0), PathId(1)]));
        assert!(names.enumerate().eq([(first, &"c"), (second, &"b")]));
        assert_eq!(format!("{names:?} {second}"), "[\"c\", \"b\"] 1");
    }

    #[test]
    fn ids_and_handles_are_as_small_as_their_numbers() {
        assert_eq!(size_of::<PathId>(), size_of::<usize>());
        assert_eq!(size_of::<PacketHandle>(), size_of::<u64>());
        assert_eq!(PacketHandle::from_bits(7).to_bits(), 7);
    }
}
