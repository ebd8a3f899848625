import { noGrad } from '../graph/create-node.ts';
import { noteSettings } from '../graph/step-settings.ts';
import { currentSession, ownPlace } from '../rank.ts';
import { withoutValues } from '../realize/pending/small-values.ts';
import { ConfigError, TensorStateError } from '../spec/errors.ts';
import { requireTensors } from '../tensor/check-arguments.ts';
import { allReduce, reinterpret } from '../tensor/collectives.ts';
import { fromData, stack } from '../tensor/create.ts';
import type { Tensor } from '../tensor/tensor.ts';
import { requireOptimizer } from './learning-rate-scheduler.ts';
import type { StepOptions } from './optimizer.ts';
import { partsOf } from './param-group.ts';

/** The part of an optimizer that a scaler needs. */
export interface ScaledOptimizer {
  readonly paramGroups: readonly { readonly params: readonly Tensor[] }[];
  step(options: StepOptions): Promise<boolean>;
}

/** What an optimizer has done since the last update() of its scaler. */
type Progress =
  | { readonly kind: 'unscaled'; readonly overflow: Tensor }
  | { readonly kind: 'stepped' };

/**
 * Multiplies the loss so that small gradients do not become 0 in f16, and divides the gradients again before the
 * update. If the gradients are not finite on some rank of the mesh, all ranks skip the step: parameters, states and
 * counts of steps keep their bits. The scale is fixed, as DeepSpeed's `loss_scale`. bf16 has the range of f32 and
 * needs no scaler.
 *
 * ```ts
 * scaler.scale(loss).backward();
 * await scaler.step(optimizer); // of each optimizer once
 * scaler.update();
 * ```
 */
export class LossScaler {
  #scale: number;
  readonly #progress = new Map<ScaledOptimizer, Progress>();
  #overflow = false;
  /** The scales of losses that wait for `settle`. Null outside of `postpone`. */
  #waiting: Tensor[] | null = null;

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

  /** The factor of the next loss. */
  get lossScale(): number {
    return this.#scale;
  }

  protected set lossScale(scale: number) {
    this.#scale = scale;
  }

  /**
   * Multiplies the loss by the scale. Call backward() on the result. The step computes `loss` too, so you can
   * read it after the step. Shape: N -> N.
   */
  scale(loss: Tensor): Tensor {
    requireTensors('scale() of a loss scaler', { loss });
    const scale = scalar(this.#scale);
    this.#waiting?.push(scale);
    return loss.retain().mul(scale);
  }

  /**
   * Divides the gradients by the scale, in the graph. step() does it if this was not called. Call it before you
   * clip gradients. Throws TensorStateError if it is called twice before update().
   */
  unscale(optimizer: ScaledOptimizer): void {
    requireOptimizer('loss scaler', optimizer, 'scaler.step(optimizer)');
    const { kind } = this.#progress.get(optimizer) ?? {};
    if (kind !== undefined) throw calledTwice('unscale', kind);
    const params = optimizer.paramGroups.flatMap((group) => [...group.params]);
    withoutValues(() =>
      noGrad(() => {
        const overflow = hasOverflow(params.map(({ part }) => part));
        this.#progress.set(optimizer, { kind: 'unscaled', overflow });
      }),
    );
    this.unscaleGradients(params);
  }

  /** Divides gradients by the scale, for an optimizer that checks itself whether they are finite. */
  unscaleGradients(params: readonly Tensor[]): void {
    const scale = this.#scale;
    noteSettings(
      { call: 'unscale() of a loss scaler', groups: [{ scale }] },
      partsOf(params),
      ownPlace,
    );
    withoutValues(() =>
      noGrad(() => {
        const inverse = scalar(1 / this.#scale);
        for (const { part } of params) {
          const { grad } = part;
          if (grad !== null) part.setGradientNode(grad.mul(inverse).node);
        }
      }),
    );
  }

  /**
   * Makes losses wait for `settle` to get their scale. This is for an optimizer that steps before it is known whether
   * the gradients are finite.
   */
  postpone(): void {
    this.#waiting = [];
  }

  /**
   * Ends `postpone`: applies the rule, and gives the losses that have waited its scale. Throws the errors of adjust.
   */
  settle(overflow: boolean): void {
    const waiting = this.#waiting ?? [];
    this.#waiting = null;
    this.adjust(overflow);
    for (const { node } of waiting) node.value = scalar(this.#scale).node.value;
  }

  /**
   * Runs optimizer.step(), unless gradients are not finite. Returns whether the step was taken. If not, do not advance
   * a learning rate scheduler. Reads one number after the run. This is a collective over all axes of the mesh. Throws
   * TensorStateError if it is called twice before update().
   */
  async step(optimizer: ScaledOptimizer): Promise<boolean> {
    if (!this.#progress.has(optimizer)) this.unscale(optimizer);
    const progress = this.#progress.get(optimizer);
    if (progress?.kind !== 'unscaled') throw calledTwice('step', 'stepped');
    this.#progress.set(optimizer, { kind: 'stepped' });
    const taken = await optimizer.step({ skipIf: progress.overflow });
    this.#overflow ||= !taken;
    return taken;
  }

  /**
   * Adjusts the scale. Call this once after the step() of all optimizers. Throws TensorStateError if there was no step.
   */
  update(): void {
    const stepped = [...this.#progress.values()].some(({ kind }) => kind === 'stepped');
    if (!stepped) {
      throw new TensorStateError({
        asked: 'update() of a loss scaler',
        found: 'no step() since the last one',
        todo: 'Call `await scaler.step(optimizer)` in the place of optimizer.step(), then update()',
      });
    }
    const overflow = this.#overflow;
    this.#progress.clear();
    this.#overflow = false;
    this.adjust(overflow);
  }

  /** The rule that changes the scale after steps with or without an overflow. A fixed scale does not change. */
  adjust(_overflow: boolean): void {}
}

function calledTwice(method: 'unscale' | 'step', before: Progress['kind']): TensorStateError {
  const earlier = before === 'unscaled' ? 'unscale()' : 'step()';
  return new TensorStateError(
    {
      asked: `${method}() of a loss scaler`,
      found: `${earlier} for the same optimizer since the last update()`,
      todo: 'Call unscale() at most once, `await scaler.step(optimizer)` in the place of optimizer.step(), and scaler.update() after the steps of all optimizers',
    },
    { method, before },
  );
}

/**
 * Whether a gradient on any rank is not finite. For finite numbers, x - x is 0. All ranks need the verdict of all,
 * including ranks that hold no parts, and ranks whose gradients are averaged later. Shape: -> bool [].
 */
function hasOverflow(parts: readonly Tensor[]): Tensor {
  const marks = parts.flatMap(({ grad }) =>
    grad === null ? [] : [grad.sub(grad).sum().to('f32')],
  );
  const own = marks.length === 0 ? scalar(0) : stack(marks).sum();
  const axes = currentSession().mesh.axes.map(({ name }) => name);
  // If gradients are the same on all ranks of an axis, the sum is a multiple of the marks. It is NaN in the same cases.
  const all = axes.reduce(
    (sum, axis) => allReduce(reinterpret(sum, axis, 'varying', 'partial'), axis),
    own,
  );
  return all.eq(all).logicalNot();
}

/** The number is a leaf, so that steps with different scales run the same plan. */
function scalar(value: number): Tensor {
  return fromData(Float32Array.of(value), [], 'f32');
}
