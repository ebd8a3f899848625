import { type CollectivePlan, dtypes, type Tensor } from '@shardwise/core/extend';

/** A message about an activation. */
interface ContextMessage {
  /** What is sent, and what it becomes. */
  readonly what: string;
  readonly becomes: string;
  readonly axis: string;
  /** The value with more bytes: that of the input or that of the result. */
  readonly elements: number;
  readonly dtype: Tensor['dtype'];
  readonly forward?: string;
  /** Null: the value has no gradient. */
  readonly backward?: string | null;
}

/** The messages of one forward pass and its backward pass, in the order in which the forward pass has made them. */
export class ContextMessages {
  readonly #all: CollectivePlan[] = [];
  #calls = 0;

  get all(): readonly CollectivePlan[] {
    return this.#all;
  }

  /** Begins the messages of another call of attention. */
  beginAttention(): void {
    this.#calls++;
  }

  ofAttention(message: ContextMessage): void {
    this.#note(`attention.${this.#calls - 1}`, message);
  }

  ofResult(message: ContextMessage): void {
    this.#note('result', message);
  }

  #note(module: string, message: ContextMessage): void {
    const { what, becomes, axis, elements, dtype, forward, backward } = message;
    const redistribution = { module, from: what, to: becomes };
    const bytes = elements * dtypes[dtype].bytes;
    const passes = [
      ['forward', forward],
      ['backward', backward],
    ] as const;
    for (const [when, operation] of passes) {
      if (operation === undefined || operation === null) continue;
      this.#all.push({ operation, axis, when, parameters: [], bytes, redistribution });
    }
  }
}
