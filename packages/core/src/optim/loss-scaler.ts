import { noGrad } from '../graph/node.ts';
import { ConfigError } from '../spec/errors.ts';
import { allReduce } from '../tensor/collectives.ts';
import { fromData, stack } from '../tensor/create.ts';
import { keepingIf } from '../tensor/handle.ts';
import type { Tensor } from '../tensor/tensor.ts';

/** What a scaler needs of an optimizer. */
export interface ScaledOptimizer {
  readonly paramGroups: readonly { readonly params: readonly Tensor[] }[];
  /** Builds its updates before it first waits, or under the keptCondition() of then. */
  step(): Promise<void>;
  stateOf(parameter: Tensor): { steps: number } | undefined;
}

/**
 * Multiplies the loss so that small gradients are not lost in f16, and divides the gradients again
 * before the update. A step whose gradients are not all finite is skipped, on all ranks alike:
 * parameters, states and counts of steps keep their bits. This one has a fixed scale, as DeepSpeed's
 * `loss_scale`; bf16 has the range of f32 and needs none.
 */
export class LossScaler {
  #scale: number;
  readonly #unscaled = new Map<ScaledOptimizer, Tensor>();

  /** Throws ConfigError for a scale that is not finite and above 0. */
  constructor(scale: number) {
    if (!(scale > 0 && Number.isFinite(scale))) {
      throw new ConfigError(
        {
          asked: `a loss scale of ${scale}`,
          found: 'a number that is not finite and above 0',
          todo: 'Use a power of two, as 2 ** 16',
        },
        { scale },
      );
    }
    this.#scale = scale;
  }

  /** By what the next loss is multiplied. */
  get lossScale(): number {
    return this.#scale;
  }

  protected set lossScale(scale: number) {
    this.#scale = scale;
  }

  /** The loss to call backward() on; the step computes `loss` too, so that it can be read after it. Shape: N -> N. */
  scale(loss: Tensor): Tensor {
    return loss.retain().mul(scalar(this.#scale));
  }

  /**
   * Divides the gradients by the scale, in the graph; step() does it where this has not been called.
   * Call it before gradients are clipped.
   */
  unscale(optimizer: ScaledOptimizer): void {
    if (this.#unscaled.has(optimizer)) return;
    const params = optimizer.paramGroups.flatMap((group) => group.params);
    noGrad(() => {
      this.#unscaled.set(optimizer, hasOverflow(params));
      const inverse = scalar(1 / this.#scale);
      for (const parameter of params) {
        const { grad } = parameter;
        if (grad !== null) parameter.setGradientNode(grad.mul(inverse).node);
      }
    });
  }

  /**
   * optimizer.step(), but for gradients that are not finite. Returns whether the step was taken; where
   * it was not, leave a learning rate's schedule where it is. Reads one number after the run. A
   * collective, where parameters are shared out over ranks.
   */
  async step(optimizer: ScaledOptimizer): Promise<boolean> {
    this.unscale(optimizer);
    const overflow = this.#unscaled.get(optimizer);
    if (overflow === undefined) throw new RangeError('the gradients were not unscaled');
    this.#unscaled.delete(optimizer);
    const states = optimizer.paramGroups.flatMap(({ params }) => params);
    const steps = states.map((parameter) => optimizer.stateOf(parameter)?.steps ?? 0);
    overflow.retain();
    await keepingIf(overflow.node, () => optimizer.step());
    const skipped = (await overflow.item()) !== 0;
    if (skipped) {
      states.forEach((parameter, index) => {
        const state = optimizer.stateOf(parameter);
        if (state !== undefined) state.steps = steps[index] ?? 0;
      });
    }
    this.update(skipped);
    return !skipped;
  }

  /** The scale after a step; a fixed one stays. */
  protected update(_overflow: boolean): void {}
}

/** Whether a gradient on any rank is not finite: x - x is 0 but for those. Shape: -> bool []. */
function hasOverflow(params: readonly Tensor[]): Tensor {
  const marks = params.flatMap(({ grad }) => (grad === null ? [] : [grad.sub(grad).sum()]));
  const axes = new Set(params.flatMap(({ shardedOver }) => shardedOver));
  const own = marks.length === 0 ? scalar(0) : stack(marks).sum();
  const all = [...axes].reduce((sum, axis) => allReduce(sum, axis), own);
  return all.eq(all).logicalNot();
}

/** A leaf, so that steps with other scales run the same plan. */
function scalar(value: number): Tensor {
  return fromData(Float32Array.of(value), [], 'f32');
}
