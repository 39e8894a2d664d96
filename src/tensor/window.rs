//! Reductions of windows, and pooling.

use kiln_ir::op::{Binary, ReduceKind, ReduceWindow, WindowCombine};
use kiln_trace::At;

use super::Tensor;

/// How windows reach over the edges.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Padding {
    /// Not at all: only whole windows count.
    #[default]
    Valid,
    /// So that there are as many windows as elements, divided by the stride, rounded up;
    /// what is added is as much before as after, or one more after.
    Same,
    /// So many elements before the first and after the last, for each axis; negative
    /// numbers cut off.
    Explicit(Vec<(i64, i64)>),
}

/// Windows on an array: one entry for each axis in each list.
///
/// ```
/// use kiln::prelude::*;
/// use kiln::{Padding, Window};
///
/// let x = Tensor::from([1.0f32, 5.0, 2.0, 4.0]);
/// let windows = Window::new(&[3]).padding(Padding::Same);
/// assert_eq!(x.window_max(&windows).to_vec::<f32>()?, [5.0, 5.0, 5.0, 4.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Window {
    size: Vec<usize>,
    strides: Vec<usize>,
    base_dilation: Vec<usize>,
    window_dilation: Vec<usize>,
    padding: Padding,
}

impl Window {
    /// Windows of so many elements along each axis, one at each place where one fits.
    pub fn new(size: &[usize]) -> Window {
        let ones = vec![1; size.len()];
        Window {
            size: size.to_vec(),
            strides: ones.clone(),
            base_dilation: ones.clone(),
            window_dilation: ones,
            padding: Padding::Valid,
        }
    }

    /// The distance between neighbouring windows along each axis.
    pub fn strides(mut self, strides: &[usize]) -> Window {
        self.strides = strides.to_vec();
        self
    }

    /// The distance at which elements of the array stand; padding lies between.
    pub fn base_dilation(mut self, dilation: &[usize]) -> Window {
        self.base_dilation = dilation.to_vec();
        self
    }

    /// The distance of neighbouring elements of a window.
    pub fn window_dilation(mut self, dilation: &[usize]) -> Window {
        self.window_dilation = dilation.to_vec();
        self
    }

    /// What is added around the array.
    pub fn padding(mut self, padding: Padding) -> Window {
        self.padding = padding;
        self
    }

    /// As an op has it, on an array of this shape. Lists of a wrong length stay so, for the
    /// op to refuse.
    pub(crate) fn on(&self, shape: &[usize]) -> kiln_ir::op::Window {
        let mut window = kiln_ir::op::Window::new(self.size.clone(), self.strides.clone());
        window.base_dilation.clone_from(&self.base_dilation);
        window.window_dilation.clone_from(&self.window_dilation);
        window.padding = match &self.padding {
            Padding::Valid => vec![(0, 0); self.size.len()],
            Padding::Explicit(padding) => padding.clone(),
            Padding::Same => {
                let lists = self.size.iter().zip(&self.strides).zip(&self.window_dilation);
                let each = lists.zip(shape.iter().zip(&self.base_dilation));
                let both = each.map(|(((&size, &stride), &dilation), (&extent, &base))| {
                    let field = extent.saturating_sub(1).saturating_mul(base) + extent.min(1);
                    let count = field.div_ceil(stride.max(1));
                    let reach = size.saturating_sub(1).saturating_mul(dilation) + 1;
                    let needed = count.saturating_sub(1).saturating_mul(stride);
                    let added = needed.saturating_add(reach).saturating_sub(field.max(1));
                    ((added / 2) as i64, (added - added / 2) as i64)
                });
                both.collect()
            }
        };
        window
    }
}

impl Tensor {
    pub(crate) fn windowed(&self, kind: ReduceKind, window: &Window, at: At) -> Tensor {
        let Ok(ty) = self.try_ty() else { return self.clone() };
        let window = window.on(&ty.shape);
        let combine = WindowCombine::Kind(kind);
        Tensor::apply(ReduceWindow { combine, window }, &[self], at)
    }

    /// The sum of each window; padding counts as 0.
    #[track_caller]
    pub fn window_sum(&self, window: &Window) -> Tensor {
        self.windowed(ReduceKind::Sum, window, At::caller())
    }

    /// The product of each window; padding counts as 1.
    #[track_caller]
    pub fn window_prod(&self, window: &Window) -> Tensor {
        self.windowed(ReduceKind::Prod, window, At::caller())
    }

    /// The greatest element of each window; NaN wins, padding never.
    #[track_caller]
    pub fn window_max(&self, window: &Window) -> Tensor {
        self.windowed(ReduceKind::Max, window, At::caller())
    }

    /// The least element of each window; NaN wins, padding never.
    #[track_caller]
    pub fn window_min(&self, window: &Window) -> Tensor {
        self.windowed(ReduceKind::Min, window, At::caller())
    }

    /// The window over the axes between the first, a batch, and the last, channels.
    fn pool(
        &self,
        op: &str,
        (size, strides): (&[usize], &[usize]),
        padding: &Padding,
        at: At,
    ) -> Result<Window, Tensor> {
        let ty = self.try_ty().map_err(Tensor::poisoned)?;
        if ty.shape.rank() != size.len() + 2 || size.len() != strides.len() {
            let message = format!(
                "wants a window and strides for each axis of {ty} but the first (batch) and the \
                 last (channels), got {size:?} and {strides:?}"
            );
            return Err(Tensor::fail_operands(op, message, &[("operand", self)], at));
        }
        let whole = |list: &[usize]| [&[1], list, &[1]].concat();
        let padding = match padding {
            Padding::Explicit(inner) => {
                let none = [(0, 0)];
                Padding::Explicit([&none, &inner[..], &none].concat())
            }
            padding => padding.clone(),
        };
        Ok(Window::new(&whole(size)).strides(&whole(strides)).padding(padding))
    }

    /// The greatest element of windows over the inner axes of a batch with channels
    /// (`[batch, .., channels]`).
    ///
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::Padding;
    ///
    /// let image = Tensor::arange(16, F32).reshape([1, 4, 4, 1]);
    /// let pooled = image.max_pool(&[2, 2], &[2, 2], Padding::Valid);
    /// assert_eq!(pooled.shape(), [1, 2, 2, 1]);
    /// assert_eq!(pooled.to_vec::<f32>()?, [5.0, 7.0, 13.0, 15.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn max_pool(&self, window: &[usize], strides: &[usize], padding: Padding) -> Tensor {
        let at = At::caller();
        match self.pool("max_pool", (window, strides), &padding, at) {
            Ok(window) => self.windowed(ReduceKind::Max, &window, at),
            Err(poisoned) => poisoned,
        }
    }

    /// The least element of windows; see [`Tensor::max_pool`].
    #[track_caller]
    pub fn min_pool(&self, window: &[usize], strides: &[usize], padding: Padding) -> Tensor {
        let at = At::caller();
        match self.pool("min_pool", (window, strides), &padding, at) {
            Ok(window) => self.windowed(ReduceKind::Min, &window, at),
            Err(poisoned) => poisoned,
        }
    }

    /// The mean of windows, in which padding counts as zeros; see [`Tensor::max_pool`].
    /// Half types accumulate in `f32`.
    #[track_caller]
    pub fn avg_pool(&self, window: &[usize], strides: &[usize], padding: Padding) -> Tensor {
        let at = At::caller();
        let wide = match self.widened("avg_pool", at) {
            Ok(wide) => wide,
            Err(poisoned) => return poisoned,
        };
        match self.pool("avg_pool", (window, strides), &padding, at) {
            Ok(windows) => {
                let sum = wide.windowed(ReduceKind::Sum, &windows, at);
                let count = window.iter().product::<usize>() as f64;
                let mean = sum.binary(Binary::Div, sum.like(count, at), at);
                mean.convert(self.dtype(), at)
            }
            Err(poisoned) => poisoned,
        }
    }
}
