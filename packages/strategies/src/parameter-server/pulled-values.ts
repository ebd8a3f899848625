import {
  currentSession,
  noGrad,
  type PageSource,
  type Parameter,
  refresh,
  Tensor,
  TensorStateError,
  withoutValues,
} from '@shardwise/core/extend';

export interface PulledValuesOptions {
  readonly parameters: readonly Parameter[];
  /** Places of parameters that are asked for together, in the order in which the forward pass needs them. */
  readonly buckets: readonly (readonly number[])[];
  /**
   * Asks for the values of a bucket, and gives them to `take`, maybe again where the connection was lost in between. They stay valid until
   * what `take` returns settles.
   */
  readonly pull: (places: readonly number[], take: TakeBucket) => Promise<void>;
}

/** Takes the values of each parameter of a bucket. */
export type TakeBucket = (values: readonly Uint8Array[]) => Promise<void>;

/** Values of a bucket that are on their way, or there and not read yet. */
class Bucket {
  readonly #values = Promise.withResolvers<void>();
  readonly #read = Promise.withResolvers<void>();
  readonly #places: readonly number[];
  readonly #unread: Map<number, Uint8Array | null>;
  #ownsValues = false;

  constructor(places: readonly number[]) {
    this.#places = places;
    this.#unread = new Map(places.map((place) => [place, null]));
    // Who reads a value hears of a failure; maybe nobody does.
    this.#values.promise.catch(() => undefined);
  }

  get arrived(): Promise<void> {
    return this.#values.promise;
  }

  /** Settles when the memory of the values is no longer needed. */
  take(values: readonly Uint8Array[]): Promise<void> {
    this.#places.forEach((place, index) => {
      const { [index]: bytes } = values;
      if (bytes !== undefined && this.#unread.has(place)) this.#unread.set(place, bytes);
    });
    if (this.#ownsValues) this.release();
    this.#values.resolve();
    return this.#read.promise;
  }

  fail(error: unknown): void {
    this.#values.reject(error);
  }

  /** Gives the memory of the values back, and keeps copies of those that may still be read. */
  release(): void {
    this.#ownsValues = true;
    for (const [place, bytes] of this.#unread) {
      if (bytes !== null) this.#unread.set(place, bytes.slice());
    }
    this.#read.resolve();
  }

  async read(place: number, target: Uint8Array): Promise<void> {
    await this.arrived;
    const bytes = this.#unread.get(place);
    if (bytes?.byteLength !== target.byteLength) {
      throw new TensorStateError({
        asked: `the values of parameter ${place} from its server`,
        found: `${bytes?.byteLength ?? 0} bytes where ${target.byteLength} are due`,
        todo: 'Run servers and workers of one version of Shardwise',
      });
    }
    target.set(bytes);
    this.#unread.delete(place);
    if (this.#unread.size === 0) this.#read.resolve();
  }
}

/**
 * Brings the values of parameters while the next forward pass computes: each bucket is an update of its parameters in the program,
 * which waits for it where the first of them is needed.
 */
export class PulledValues {
  readonly #options: PulledValuesOptions;
  readonly #source: number;
  #buckets: ReadonlyMap<number, Bucket> = new Map();

  constructor(options: PulledValuesOptions) {
    this.#options = options;
    const source: PageSource = {
      read: async (name, target) => {
        const place = Number(name);
        const bucket = this.#buckets.get(place);
        if (bucket === undefined) throw new RangeError(`parameter ${name} is in no bucket`);
        await bucket.read(place, target);
      },
    };
    this.#source = currentSession().numberOf(source);
  }

  /**
   * Asks for all values. What the program computes from now on has them. The values that were asked for before must have been
   * realized.
   */
  begin(): void {
    this.release();
    const { buckets, parameters, pull } = this.#options;
    const under = new Map<number, Bucket>();
    buckets.forEach((places, number) => {
      const bucket = new Bucket(places);
      for (const place of places) under.set(place, bucket);
      const pulled = async (): Promise<void> => {
        try {
          await pull(places, (values) => bucket.take(values));
        } catch (error) {
          bucket.fail(error);
        }
      };
      void pulled();
      withoutValues(() =>
        noGrad(() => {
          for (const place of places) {
            const { [place]: parameter } = parameters;
            if (parameter === undefined) continue;
            const params = { source: this.#source, name: String(place), bucket: number };
            parameter.assign(new Tensor(refresh(parameter.node, params)));
          }
        }),
      );
    });
    this.#buckets = under;
  }

  /** Settles when all values have arrived. Rejects where one does not. */
  async arrived(): Promise<void> {
    for (const bucket of this.#buckets.values()) await bucket.arrived;
  }

  /** Gives the memory of what was pulled back; it can still be read. */
  release(): void {
    for (const bucket of this.#buckets.values()) bucket.release();
  }
}
