import {
  currentSession,
  fromData,
  noGrad,
  type ProcessGroup,
  type Tensor,
  TensorStateError,
  withoutValues,
} from '@shardwise/core/extend';
import {
  agree,
  type Agreement,
  type CompressionErrors,
  noErrors,
} from './messages/outer-messages.ts';
import type { OuterSettings } from './outer-optimizer-settings.ts';
import { outerStep } from './outer-step.ts';

/** A parameter of a fragment, with the tensor that optimizers update. */
export type FragmentParameter = readonly [name: string, part: Tensor];

/** What ranks do with the values of a fragment when they meet. */
export interface Meeting extends Agreement {
  readonly group: ProcessGroup;
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
  readonly #parameters: readonly FragmentParameter[];
  #state: FragmentState | null = null;
  #mean: Promise<Float32Array> | null = null;

  constructor(parameters: readonly FragmentParameter[]) {
    this.#parameters = parameters;
    this.elements = parameters.reduce((sum, [, { numel }]) => sum + numel, 0);
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
  get mean(): Promise<Float32Array> | null {
    return this.#mean;
  }

  /** Begins with the present values. */
  async begin({ outer, bits, group }: Meeting): Promise<Float32Array> {
    const anchor = await this.#read();
    this.#state = {
      anchor,
      momentum: outer === null ? null : new Float32Array(this.elements),
      errors: bits === 32 ? null : noErrors(this.elements, group.size),
    };
    return anchor;
  }

  /** Goes on from a saved state. `mean` is one that was on its way. */
  restore(state: FragmentState, mean: Float32Array | null): void {
    this.#state = state;
    this.#mean = mean === null ? null : Promise.resolve(mean);
  }

  /** Sends what this rank has learned. Settles when the message is on its way, which training does not wait for. */
  async send(meeting: Meeting): Promise<void> {
    const own = await this.#read();
    const { anchor, errors } = this.#known();
    const { outer, group } = meeting;
    if (outer !== null) {
      for (let at = 0; at < own.length; at++) own[at] = (anchor[at] ?? 0) - (own[at] ?? 0);
    }
    const mean = agree(own, group, meeting, errors);
    // Whoever takes the outer step gets the error.
    mean.catch(() => undefined);
    this.#mean = mean;
  }

  /** Takes the outer step with the mean, for which it waits, and writes the new values into the parameters. */
  async meet({ outer, alpha }: Meeting): Promise<void> {
    const sent = this.#mean;
    if (sent === null) throw new RangeError('an outer step before its message');
    const mean = await sent;
    this.#mean = null;
    this.#requireFinite(mean);
    const { anchor, momentum } = this.#known();
    if (outer === null || momentum === null) anchor.set(mean);
    else outerStep(anchor, mean, momentum, outer);
    await this.#write(alpha === 0 ? anchor : mixed(anchor, await this.#read(), alpha));
  }

  #known(): FragmentState {
    if (this.#state === null) throw new RangeError('a fragment that has not begun');
    return this.#state;
  }

  async #read(): Promise<Float32Array> {
    const values = new Float32Array(this.elements);
    let at = 0;
    for (const [, part] of this.#parameters) {
      const own = await part.data();
      if (!(own instanceof Float32Array)) throw new RangeError(`a parameter of ${part.dtype}`);
      values.set(own, at);
      at += own.length;
    }
    return values;
  }

  async #write(values: Float32Array): Promise<void> {
    withoutValues(() =>
      noGrad(() => {
        let at = 0;
        for (const [, part] of this.#parameters) {
          // The tensor owns its array, and the anchor changes at the next outer step.
          part.assign(fromData(values.slice(at, at + part.numel), part.shape, 'f32'));
          at += part.numel;
        }
      }),
    );
    await currentSession().realize([]);
  }

  /** The mean has the same bits on every rank, so every rank throws. */
  #requireFinite(mean: Float32Array): void {
    const wrong = mean.findIndex((each) => !Number.isFinite(each));
    if (wrong < 0) return;
    let end = 0;
    const name = this.#parameters.find(([, { numel }]) => (end += numel) > wrong)?.[0] ?? '';
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
