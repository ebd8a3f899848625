import { noGrad } from '../../graph/create-node.ts';
import type { Node } from '../../graph/node.ts';
import type { PageStore } from '../../paging/page.ts';
import { withoutValues } from '../../realize/pending/small-values.ts';
import { formatShape } from '../../base/shape.ts';
import type { Shape } from '../../spec/dtype.ts';
import { TensorStateError } from '../../spec/errors.ts';
import type { Gradient, GradientHook, GradientReduction, Update } from '../../tensor/gradient.ts';
import { Tensor } from '../../tensor/tensor.ts';
import { Parameter, type ParameterPart } from './parameter.ts';

/**
 * A parameter that is sharded over ranks. It stands for the whole: its shape, its value in expressions, `data()`, its
 * gradient, and values that are assigned to it are those of the whole. Everything that reads the whole is a collective:
 * all ranks must do it, in the same order. Its `part` is what this rank keeps and what optimizers update.
 */
export abstract class DividedParameter extends Parameter {
  abstract override get part(): ParameterPart;

  /** The node of the whole. Gradients arrive at it. Shape: -> whole. */
  abstract override get node(): Node;

  /**
   * Returns the whole of a tensor with the layout of the part, such as its gradient. No gradient flows through it. This
   * is a collective. Shape: part -> whole.
   */
  abstract override wholeOf(part: Tensor): Tensor;

  /** Cuts this rank's part from a whole. Shape: whole -> part. */
  abstract override partOf(whole: Tensor): Tensor;

  constructor(shape: Shape, { dtype }: Pick<ParameterPart, 'dtype'>) {
    super(null, shape, { dtype });
  }

  override get shape(): Shape {
    return this.contents.shape;
  }

  override get dtype(): ParameterPart['dtype'] {
    return this.contents.dtype;
  }

  override get requiresGrad(): boolean {
    return this.#own.requiresGrad;
  }

  override get varyingOver(): readonly string[] {
    return this.part.varyingOver;
  }

  override markVarying(axes: readonly string[]): this {
    this.#own.markVarying(axes);
    return this;
  }

  override requiresGrad_(requiresGrad = true): this {
    this.#own.requiresGrad_(requiresGrad);
    return this;
  }

  override get gradientNode(): Node | null {
    const { grad } = this.#own;
    return grad === null ? null : withoutValues(() => this.wholeOf(grad)).node;
  }

  /** Replaces the gradient of the part by its part of a whole gradient. Shape: whole. */
  override setGradientNode(node: Node): void {
    this.#own.setGradientNode(this.#partOf(node));
  }

  override get keptGradients(): readonly Node[] {
    return this.#own.keptGradients;
  }

  override reduceGradient(reduction: GradientReduction): Gradient {
    return this.#own.reduceGradient(reduction);
  }

  override checkUpdate(update: Update): void {
    this.#own.checkUpdate(update);
  }

  override zeroGrad(): void {
    this.#own.zeroGrad();
  }

  override pageGradient(name: string, store: PageStore): void {
    this.#own.pageGradient(name, store);
  }

  override onAccumulated(hook: GradientHook): () => void {
    return this.#own.onAccumulated(hook);
  }

  override addGradientHook(): () => void {
    throw new TensorStateError(
      {
        asked: `registerHook on a parameter of shape ${formatShape(this.shape)}`,
        found:
          'a strategy that shares it out over the ranks, where there is no gradient of the whole to change',
        todo: 'Use registerPostAccumulateGradHook(), or hook a value that the model computes',
      },
      { shape: this.shape },
    );
  }

  override assign(value: Tensor): this {
    this.#own.assign(withoutValues(() => this.partOf(value)));
    return this;
  }

  /** Stores this rank's part of new contents. Shape: value whole. */
  override store(value: Node): this {
    this.#own.store(this.#partOf(value));
    return this;
  }

  override pageOut(name: string, store: PageStore): Promise<void> {
    return this.#own.pageOut(name, store);
  }

  override async realize(): Promise<this> {
    await this.#own.realize();
    return this;
  }

  override dispose(): void {
    this.#own.dispose();
  }

  get #own(): ParameterPart {
    this.checkNotReplaced();
    return this.part;
  }

  #partOf(whole: Node): Node {
    return withoutValues(() => noGrad(() => this.partOf(new Tensor(whole)))).node;
  }
}
