import {
  currentSession,
  elementCount,
  fromData,
  noGrad,
  type Shape,
  shardOf,
  type Tensor,
  TensorStateError,
  unshard,
  withoutValues,
} from '@shardwise/core/extend';
import type { Agreed, OuterGroup } from './members/outer-group.ts';
import type { SharedFragment } from './members/state-bytes.ts';
import { type CompressionErrors, noErrors, type OuterBits } from './messages/outer-messages.ts';
import type { OuterSettings } from './outer-optimizer-settings.ts';
import { outerStep } from './outer-step.ts';

/** A parameter of a fragment, with the tensor that optimizers update. */
export type FragmentParameter = readonly [name: string, part: Tensor];

/** What ranks do with the values of a fragment when they meet. */
export interface Meeting {
  readonly group: OuterGroup;
  /** The bits of an element in messages. */
  readonly bits: OuterBits;
  /** The outer optimizer. Null: ranks go on from the mean of their values. */
  readonly outer: OuterSettings | null;
  /** The share of its own values that a rank keeps beside the new ones, from 0 to 1. */
  readonly alpha: number;
}

/** The state of a fragment between two meetings. All arrays are in the order of its parameters. */
export interface FragmentState {
  /** The values that all ranks had after the latest outer step. Shape: [n]. */
  anchor: Float32Array;
  /** Shape: [n]. Null without an outer optimizer. */
  momentum: Float32Array | null;
  /** Null if messages leave nothing out. */
  errors: CompressionErrors | null;
}

/** Parameters whose values travel together, in one message or exchange. */
export class Fragment {
  readonly elements: number;
  readonly #isWhole: boolean;
  readonly #parameters: readonly FragmentParameter[];
  #state: FragmentState | null = null;
  #agreed: Promise<Agreed> | null = null;
  #tokens = 0;

  /** `isWhole`: its values are those of whole parameters, of which ranks may have parts. They are then read and written by all. */
  constructor(parameters: readonly FragmentParameter[], isWhole = false) {
    this.#parameters = parameters;
    this.#isWhole = isWhole;
    this.elements = parameters.reduce(
      (sum, [, part]) => sum + elementCount(this.#shapeOf(part)),
      0,
    );
  }

  get names(): readonly string[] {
    return this.#parameters.map(([name]) => name);
  }

  get parts(): readonly Tensor[] {
    return this.#parameters.map(([, part]) => part);
  }

  /** What is kept between meetings. Null before the first step. */
  get state(): FragmentState | null {
    return this.#state;
  }

  /** What the ranks agree on, while it is on its way. Null between an outer step and the next message. */
  get agreed(): Promise<Agreed> | null {
    return this.#agreed;
  }

  /** The tokens that it has learned from since it last had the values of all. */
  get tokens(): number {
    return this.#tokens;
  }

  /** Begins with the present values. */
  async begin(meeting: Meeting): Promise<void> {
    this.#state = {
      anchor: await this.values(),
      momentum: meeting.outer === null ? null : new Float32Array(this.elements),
      errors: this.#noErrors(meeting),
    };
  }

  /** Goes on from a saved state. `mean` is one that was on its way. */
  restore(state: FragmentState, mean: Float32Array | null, tokens: number): void {
    this.#state = state;
    this.#tokens = tokens;
    this.#agreed = mean === null ? null : Promise.resolve({ kind: 'vector', vector: mean });
  }

  /** Its values learn from so many tokens more. */
  countTokens(tokens: number): void {
    this.#tokens += tokens;
  }

  /** What all ranks have in common, with an outer optimizer. */
  shared(): SharedFragment {
    const { anchor, momentum } = this.#known();
    if (momentum === null) throw new RangeError('a state without momentum');
    return { anchor, momentum };
  }

  /** Goes on from what other ranks have in common, and writes it into the parameters. */
  async replace({ anchor, momentum }: SharedFragment, meeting: Meeting): Promise<void> {
    this.#state = { anchor, momentum, errors: this.#noErrors(meeting) };
    this.#agreed = null;
    this.#tokens = 0;
    await this.assign(anchor);
  }

  /**
   * Sends what this rank has learned, after so many outer steps. Settles when the message is on its way, which training
   * does not wait for.
   */
  async send({ outer, group }: Meeting, completed: number): Promise<void> {
    const values = await this.values();
    const { anchor, errors } = this.#known();
    if (outer !== null) {
      for (let at = 0; at < values.length; at++) {
        values[at] = (anchor[at] ?? 0) - (values[at] ?? 0);
      }
    }
    const agreed = group.agree({ values, tokens: this.#tokens, errors, completed });
    // Whoever takes the outer step gets the error.
    agreed.catch(() => undefined);
    this.#agreed = agreed;
  }

  /** Waits for what the ranks have agreed on. */
  async receive(): Promise<Agreed> {
    if (this.#agreed === null) throw new RangeError('an outer step before its message');
    const agreed = await this.#agreed;
    this.#agreed = null;
    return agreed;
  }

  /** Takes the outer step with the mean of the ranks, and writes the new values into the parameters. */
  async meet(mean: Float32Array, { outer, alpha }: Meeting): Promise<void> {
    this.#requireFinite(mean);
    const { anchor, momentum } = this.#known();
    if (outer === null || momentum === null) anchor.set(mean);
    else outerStep(anchor, mean, momentum, outer);
    // What was learned since the message is given up, or blended in.
    this.#tokens = 0;
    await this.assign(alpha === 0 ? anchor : mixed(anchor, await this.values(), alpha));
  }

  #noErrors({ bits, group }: Meeting): CompressionErrors | null {
    return bits === 32 ? null : noErrors(this.elements, group.parts);
  }

  #known(): FragmentState {
    if (this.#state === null) throw new RangeError('a fragment that has not begun');
    return this.#state;
  }

  /** The present values of the parameters. Shape: -> [n]. */
  async values(): Promise<Float32Array> {
    const values = new Float32Array(this.elements);
    let at = 0;
    for (const [, part] of this.#parameters) {
      const own = await (this.#isWhole ? this.#gathered(part) : part).data();
      if (!(own instanceof Float32Array)) throw new RangeError(`a parameter of ${part.dtype}`);
      values.set(own, at);
      at += own.length;
    }
    return values;
  }

  /** Writes values into the parameters, and changes nothing else. Shape: values [n]. */
  async assign(values: Float32Array): Promise<void> {
    withoutValues(() =>
      noGrad(() => {
        let at = 0;
        for (const [, part] of this.#parameters) {
          // The tensor owns its array, and the anchor changes at the next outer step.
          const shape = this.#shapeOf(part);
          const end = at + elementCount(shape);
          const own = fromData(values.slice(at, end), shape, 'f32');
          part.assign(this.#isWhole ? shardOf(own, part.layout) : own);
          at = end;
        }
      }),
    );
    await currentSession().realize([]);
  }

  #shapeOf({ wholeShape, shape }: Tensor): Shape {
    return this.#isWhole ? wholeShape : shape;
  }

  #gathered(part: Tensor): Tensor {
    return withoutValues(() => noGrad(() => unshard(part, part.layout, part.wholeShape)));
  }

  /** The mean has the same bits on every rank, so every rank throws. */
  #requireFinite(mean: Float32Array): void {
    const wrong = mean.findIndex((each) => !Number.isFinite(each));
    if (wrong < 0) return;
    let end = 0;
    const name =
      this.#parameters.find(
        ([, part]) => (end += elementCount(this.#shapeOf(part))) > wrong,
      )?.[0] ?? '';
    throw new TensorStateError(
      {
        asked: `an outer step of '${name}'`,
        found: `a mean over the ranks of ${mean[wrong]}, because the values of a rank are not finite`,
        todo: 'Lower the learning rate of the inner optimizer or clip its gradients; the ranks can go on from their latest checkpoint',
      },
      { parameter: name },
    );
  }
}

/** Goes from the global values towards a rank's own ones, as torch.lerp does. Shape: global [n], own [n] -> [n]. */
function mixed(global: Float32Array, own: Float32Array, alpha: number): Float32Array {
  const share = Math.fround(alpha);
  const rest = Math.fround(1 - alpha);
  return global.map((value, at) => {
    const other = own[at] ?? 0;
    const difference = Math.fround(other - value);
    return alpha < 0.5
      ? value + Math.fround(share * difference)
      : other - Math.fround(rest * difference);
  });
}
