//! Matrix in one allocation, so that copying an `Assignment` takes a few plain memory copies.

/// Matrix with rows of equal width.
pub(super) struct Grid<T> {
    cells: Vec<T>,
    width: usize,
}

impl<T: Copy + Default> Grid<T> {
    pub(super) fn new(rows: usize, width: usize) -> Self {
        Self {
            cells: vec![T::default(); rows * width],
            width,
        }
    }

    pub(super) fn row(&self, at: usize) -> &[T] {
        let from = at * self.width;
        self.cells.get(from..from + self.width).unwrap_or_default()
    }

    pub(super) fn row_mut(&mut self, at: usize) -> &mut [T] {
        let from = at * self.width;
        let row = self.cells.get_mut(from..from + self.width);
        row.unwrap_or_default()
    }

    pub(super) fn at(&self, row: usize, column: usize) -> T {
        self.row(row).get(column).copied().unwrap_or_default()
    }

    pub(super) fn set(&mut self, row: usize, column: usize, value: T) {
        if let Some(cell) = self.row_mut(row).get_mut(column) {
            *cell = value;
        }
    }

    pub(super) fn copy_from(&mut self, other: &Self) {
        self.cells.clone_from(&other.cells);
    }
}
