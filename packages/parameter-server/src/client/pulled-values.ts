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
  /** The places of the parameters that are requested together, in the order in which the forward pass needs them. */
  readonly buckets: readonly (readonly number[])[];
  /**
   * Requests the values of a bucket and gives them to `take`. It calls `take` again if the connection was lost in
   * between. The values are valid until the promise that `take` returns settles.
   */
  readonly pull: (places: readonly number[], take: TakeBucket) => Promise<void>;
}

/** Takes the values of each parameter of a bucket. */
type TakeBucket = (values: readonly Uint8Array[]) => Promise<void>;

/** The values of a bucket, from their request until they have been read. */
class Bucket {
  readonly #values = Promise.withResolvers<void>();
  readonly #read = Promise.withResolvers<void>();
  readonly #places: readonly number[];
  readonly #unread: Map<number, Uint8Array | null>;
  #ownsValues = false;

  constructor(places: readonly number[]) {
    this.#places = places;
    this.#unread = new Map(places.map((place) => [place, null]));
    // Those who read a value get the error. If nobody reads one, it must not be an unhandled rejection.
    this.#values.promise.catch(() => undefined);
  }

  get arrived(): Promise<void> {
    return this.#values.promise;
  }

  /** Takes the values of the bucket. Settles when their memory is no longer needed. */
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
 * Pulls the values of parameters while the next forward pass computes. Each bucket is an update of its parameters in
 * the program, which waits for the bucket where the first of them is needed.
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
   * Requests all values. Whatever the program computes from now on uses them. The values that were requested before
   * must have been realized.
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

  /** Settles when all values have arrived. Rejects if one cannot be pulled. */
  async arrived(): Promise<void> {
    for (const bucket of this.#buckets.values()) await bucket.arrived;
  }

  /** Gives the memory of the pulled values back. They can still be read. */
  release(): void {
    for (const bucket of this.#buckets.values()) bucket.release();
  }
}
