import { synchronously } from '../ambient.ts';
import type { DistributedValue, Node } from '../graph/node.ts';
import { replicated } from '../layout/layout.ts';
import type { Layout } from '../spec/layout.ts';
import { withoutValues } from '../realize/pending/small-values.ts';
import { formatShape, sameShape } from '../base/shape.ts';
import { LayoutError, ShapeError } from '../spec/errors.ts';
import { requireTensors } from './check-arguments.ts';
import { checkCalls } from './check-calls.ts';
import { IndexingMethods } from './methods/indexing-methods.ts';

/**
 * A tensor, or a number. A whole number is like a Python int, even if it is written 1.0. Any other number is
 * like a float: it turns integers into floats, and changes no other dtype.
 */
export type Operand = Tensor | number;

/**
 * A value of the lazy graph. Methods add to the graph and return at once. `data()`, `item()`, `realize()` and the step of
 * an optimizer compute. In the shapes of comments, N, N' and N'' stand for any shape. Methods with several operands
 * broadcast them.
 */
export class Tensor extends IndexingMethods<Tensor> {
  static {
    checkCalls<Tensor>(this.prototype, {
      assign: 'T',
      at: '*',
      backward: 't',
      binCount: '..',
      chunk: '..',
      clamp: '..',
      expand: 'S',
      fillRows: 'I',
      flatten: '..',
      gelu: '.',
      layerNorm: '..n',
      logicalAnd: 'T',
      logicalOr: 'T',
      permute: 'D',
      registerHook: 'H',
      registerPostAccumulateGradHook: 'H',
      repeat: 'C',
      requiresGrad_: 'f',
      reshape: 'S',
      rmsNorm: '.n',
      round: '.',
      slice: '.Iii',
      split: '..',
      tile: 'C',
      toJSON: '*',
      unbind: '.',
    });
  }

  /**
   * What this rank keeps and updates of the tensor. If ranks do not share the tensor out, this is the tensor itself.
   */
  get part(): Tensor {
    return this;
  }

  /**
   * Returns the whole of a tensor that has the layout of `part`. If ranks do not share this tensor out, `part` is the
   * whole.
   */
  wholeOf(part: Tensor): Tensor {
    return part;
  }

  /**
   * Returns what this rank keeps of a tensor with the shape of the whole. If ranks do not share this tensor out, that
   * is all of it.
   */
  partOf(whole: Tensor): Tensor {
    return whole;
  }

  /**
   * This rank's part of a distributed tensor, or its term of the sum. Throws LayoutError for a tensor of this rank.
   * Shape: whole -> part.
   */
  toLocal(): Tensor {
    return new Tensor(this.#distributed.local);
  }

  /**
   * The same values of a distributed tensor in another layout, moved by the cheapest collectives. All ranks must call
   * it. Throws LayoutError for a tensor of this rank. Shape: N -> N.
   */
  redistribute(layout: Layout): Tensor {
    return new Tensor(this.#distributed.redistribute(layout));
  }

  /** All of a distributed tensor, on every rank. All ranks must call it. Shape: N -> N. */
  fullTensor(): Tensor {
    return this.redistribute(replicated(this.shape)).toLocal();
  }

  get #distributed(): DistributedValue {
    const { distributed } = this.node;
    if (distributed !== null) return distributed;
    throw new LayoutError(
      {
        asked: `the parts of ${formatShape(this.shape)}`,
        found: 'it is not distributed',
        todo: 'Use distributeTensor()',
      },
      { shape: this.shape },
    );
  }

  /** The gradient after backward(). It is null before backward() and after zeroGrad(). */
  get grad(): Tensor | null {
    const node = this.gradientNode;
    if (node === null) return null;
    node.ofGradient = true;
    return new Tensor(node);
  }

  /**
   * torch.Tensor.register_hook: `hook` runs in backward() when the gradient of this tensor is complete. The tensor need
   * not be a leaf. The hook gets the gradient of this rank, and may return another gradient to replace it. Returns a
   * function that removes the hook. Shape: gradient N -> N.
   */
  registerHook(hook: (gradient: Tensor) => Tensor | undefined | void): () => void {
    return this.addGradientHook((node) => {
      const gradient = new Tensor(node);
      const changed = withoutValues(() => hook(gradient)) ?? gradient;
      requireTensors('registerHook', { 'what the hook returned': changed });
      if (sameShape(changed.shape, gradient.shape)) return changed.node;
      throw new ShapeError(
        {
          asked: `a hook of a gradient of shape ${formatShape(gradient.shape)}`,
          found: `one of shape ${formatShape(changed.shape)} that it returned`,
          todo: 'Return a gradient of the same shape, or nothing',
        },
        { shape: gradient.shape },
      );
    });
  }

  /**
   * PyTorch's register_post_accumulate_grad_hook: `hook` runs in backward(), in program order, each time this leaf's
   * gradient has been accumulated, before a strategy takes it. The hook gets the leaf and may read its `grad`. The hook
   * stays if the leaf stops training. Returns a function that removes the hook.
   */
  registerPostAccumulateGradHook(hook: (leaf: Tensor) => void): () => void {
    return this.onAccumulated(() => synchronously('a hook', () => hook(this)));
  }

  protected override tensorOf(node: Node): Tensor {
    return new Tensor(node);
  }
}
