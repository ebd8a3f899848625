import type { Node } from '../graph/node.ts';
import { IndexingMethods } from './methods/indexing-methods.ts';

/**
 * A tensor, or a number. A whole number is like an int of Python, also where it is written 1.0, any other
 * like a float: it makes floats of integers, and changes no other dtype.
 */
export type Operand = Tensor | number;

/**
 * A value of the lazy graph. Methods build graph and return at once; `data()`, `item()`,
 * `realize()` and an optimizer's step compute. Its operations stand in `methods/`, by what they do; its state is in
 * TensorHandle. Letters in shapes: N, N' any shape; binary methods broadcast.
 */
export class Tensor extends IndexingMethods<Tensor> {
  /** What this rank keeps and updates of it: the tensor itself, where ranks do not share it out. */
  get part(): Tensor {
    return this;
  }

  /** The whole of something that lies as `part` does: itself, where ranks do not share it out. */
  wholeOf(part: Tensor): Tensor {
    return part;
  }

  /** What this rank keeps of something as large as the whole: all of it, where ranks do not share it out. */
  partOf(whole: Tensor): Tensor {
    return whole;
  }

  /** The gradient after backward(); null before and after zeroGrad(). */
  get grad(): Tensor | null {
    const node = this.gradientNode;
    if (node === null) return null;
    node.ofGradient = true;
    return new Tensor(node);
  }

  protected override tensorOf(node: Node): Tensor {
    return new Tensor(node);
  }
}
