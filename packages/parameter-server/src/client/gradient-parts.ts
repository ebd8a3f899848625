import {
  currentSession,
  type Gradient,
  noGrad,
  type Node,
  pageOut,
  type PageStore,
  type Parameter,
  queueAfterBackward,
  Tensor,
} from '@shardwise/core/extend';
import type { SentDtype } from '../protocol/arrays.ts';

export interface GradientPartsOptions {
  readonly parameters: readonly Parameter[];
  /** The places of the parameters whose gradients are sent together. */
  readonly buckets: readonly (readonly number[])[];
  readonly dtype: SentDtype;
  /** Called during the run with the gradients of a part. Settles when they are on their way. */
  readonly send: (places: readonly number[], arrays: readonly Uint8Array[]) => Promise<void>;
}

/** The gradients of a bucket that the latest backward pass has computed. */
interface GradientPart {
  readonly places: readonly number[];
  readonly gradients: readonly Node[];
  readonly sent: readonly Tensor[];
  /** The nodes of the program that send each of `sent`. */
  readonly pages: readonly Node[];
}

/**
 * Sends gradients while older layers still compute theirs. A backward pass adds nodes to the program that send the
 * gradients of a bucket, after the last of them. The step decides whether they run, because only then it is known that
 * the gradients are final: they may be added up over several passes, and clipped.
 */
export class GradientParts {
  readonly #options: GradientPartsOptions;
  readonly #gradients: readonly Gradient[];
  readonly #store: number;
  readonly #bucketOf: ReadonlyMap<number, number>;
  /**
   * The parameters whose gradients the present backward pass has still to compute, and how many times each. Null
   * between passes.
   */
  #awaited: Map<number, number> | null = null;
  /** The part of each bucket. */
  readonly #parts = new Map<number, GradientPart>();
  /**
   * By the names of pages, the parts that the run sends, with the gradients that have arrived so far. A gradient arrives
   * when it has been computed, so not in the order of the places.
   */
  readonly #leaving = new Map<
    string,
    { readonly part: GradientPart; readonly came: Map<string, Uint8Array> }
  >();

  constructor(options: GradientPartsOptions) {
    this.#options = options;
    const { parameters, buckets } = options;
    this.#bucketOf = new Map(
      buckets.flatMap((places, bucket) => places.map((place) => [place, bucket] as const)),
    );
    const store: PageStore = {
      write: async (name, bytes) => {
        await this.#leave(name, bytes);
        return { byteLength: bytes.byteLength, read: async (target) => target.set(bytes) };
      },
    };
    this.#store = currentSession().numberOf(store);
    this.#gradients = parameters.map((parameter, place) =>
      parameter.reduceGradient({
        expect: () => this.#expect(place),
        arrive: () => this.#arrive(place),
        checkUpdate: () => {},
      }),
    );
  }

  /**
   * Returns the nodes to realize so that gradients are sent during the run. Gradients that have been computed already,
   * or that have changed since the backward pass, are left to the push.
   */
  take(): readonly Node[] {
    const { parameters } = this.#options;
    const parts = [...this.#parts.values()].filter(({ places, gradients }) =>
      places.every((place, index) => {
        const { [index]: gradient } = gradients;
        return gradient?.value === null && parameters[place]?.gradientNode === gradient;
      }),
    );
    this.#parts.clear();
    this.#leaving.clear();
    for (const part of parts) {
      for (const tensor of part.sent) tensor.retain();
      const leaving = { part, came: new Map<string, Uint8Array>() };
      for (const place of part.places) this.#leaving.set(String(place), leaving);
    }
    return parts.flatMap(({ pages }) => pages);
  }

  detach(): void {
    for (const gradient of this.#gradients) gradient.reduceBy(null);
    this.#parts.clear();
  }

  #expect(place: number): void {
    if (this.#awaited === null) {
      this.#awaited = new Map();
      this.#parts.clear();
      queueAfterBackward(() => {
        this.#awaited = null;
      });
    }
    this.#awaited.set(place, (this.#awaited.get(place) ?? 0) + 1);
  }

  #arrive(place: number): void {
    const awaited = this.#awaited;
    if (awaited === null) return;
    const left = (awaited.get(place) ?? 1) - 1;
    if (left > 0) awaited.set(place, left);
    else awaited.delete(place);
    const bucket = this.#bucketOf.get(place) ?? -1;
    const places = this.#options.buckets[bucket] ?? [];
    if (places.some((each) => awaited.has(each))) return;
    this.#parts.set(bucket, this.#partOf(places));
  }

  /** Builds the part of a bucket from those of its parameters that have a gradient. */
  #partOf(bucket: readonly number[]): GradientPart {
    const found = bucket.flatMap((place) => {
      const node = this.#gradients[place]?.node ?? null;
      return node === null ? [] : [{ place, node }];
    });
    const { dtype } = this.#options;
    return noGrad(() => {
      const sent = found.map(({ node }) => {
        const gradient = new Tensor(node);
        return dtype === 'f32' ? gradient : gradient.to(dtype);
      });
      return {
        places: found.map(({ place }) => place),
        gradients: found.map(({ node }) => node),
        sent,
        pages: sent.map(({ node }, index) =>
          pageOut(node, { store: this.#store, name: String(found[index]?.place) }),
        ),
      };
    });
  }

  /** Sends a part when its last gradient has arrived. The bytes of the gradients stay valid until the step is over. */
  async #leave(name: string, bytes: Uint8Array): Promise<void> {
    const leaving = this.#leaving.get(name);
    if (leaving === undefined) return;
    const { part, came } = leaving;
    came.set(name, bytes);
    const arrays = part.places.flatMap((place) => came.get(String(place)) ?? []);
    if (arrays.length === part.places.length) await this.#options.send(part.places, arrays);
  }
}
