import {
  currentSession,
  fromBytes,
  fromData,
  noGrad,
  type Parameter,
  type Tensor,
  TensorStateError,
  type Updater,
  type UpdateRequest,
  withoutValues,
} from '@shardwise/core/extend';
import type { ParameterServers } from '../protocol/parameter-servers.ts';
import { type ConsistencyRule, movedTowards } from '../protocol/consistency.ts';
import { GradientParts } from './gradient-parts.ts';
import { type KeyRange, keyRanges } from '../protocol/key-ranges.ts';
import { floatsOf, type SentDtype, sentBytes, viewBytes } from '../protocol/arrays.ts';
import type { UpdateRecipe } from '../protocol/job.ts';
import { PulledValues } from './pulled-values.ts';
import type { ServerAnswer } from '../protocol/message.ts';
import { ShardLink } from './shard-link.ts';

export interface ServerUpdaterOptions {
  readonly servers: ParameterServers;
  readonly consistency: ConsistencyRule;
  readonly worker: number;
  readonly workers: number;
  readonly parameters: readonly (readonly [name: string, parameter: Parameter])[];
  readonly timeoutMs: number;
  /** The dtype to which gradients are rounded before they are sent. Undefined: they stay f32. */
  readonly compress: 'f16' | 'bf16' | undefined;
  /** The bytes of gradients in a bucket, which is sent during the backward pass. */
  readonly bucketBytes: number;
}

/** The first bucket is small, as in DDP, so that messages begin early. */
const FIRST_BUCKET_BYTES = 1 << 20;

interface Range extends KeyRange {
  readonly link: ShardLink;
}

/** Carries out the steps of optimizers on the servers: pushes gradients and pulls parameters. */
export class ServerUpdater implements Updater {
  readonly name = 'parameter servers';
  readonly keepsStates: boolean;
  readonly averagesLater: boolean;
  readonly #options: ServerUpdaterOptions;
  readonly #parameters: readonly Parameter[];
  readonly #places: ReadonlyMap<object, number>;
  readonly #ranges: readonly Range[];
  /** This field and `#pulled` are null in elastic averaging, where workers send values. */
  #parts: GradientParts | null = null;
  #pulled: PulledValues | null = null;
  #isWriting = false;
  #steps = 0;

  constructor(options: ServerUpdaterOptions) {
    const { servers, consistency, worker, workers, parameters, timeoutMs } = options;
    this.#options = options;
    this.#parameters = parameters.map(([, parameter]) => parameter);
    this.#places = new Map(this.#parameters.map((parameter, index) => [parameter, index]));
    this.keepsStates = consistency.kind !== 'elastic';
    this.averagesLater = consistency.kind === 'synchronous' && workers > 1;
    const bytes = this.#parameters.map(({ numel }) => numel * 4);
    this.#ranges = keyRanges(bytes, servers.size).map((range, shard) => {
      const own = parameters.slice(range.start, range.end);
      const served = own.map(([name, { shape }]) => ({ name, shape }));
      const job = { workers, consistency, parameters: served };
      return { ...range, link: new ShardLink({ servers, shard, worker, job, timeoutMs }) };
    });
  }

  /** Joins the servers. Worker 0 gives them the initial values, and all workers pull the values of the servers. */
  async start(): Promise<void> {
    for (const parameter of this.#parameters) parameter.updater = this;
    await Promise.all(this.#ranges.map(({ link }) => link.join()));
    for (const range of this.#ranges) {
      if (range.link.isInitialised || this.#options.worker !== 0) continue;
      await range.link.initialise(await valuesOf(this.#parameters.slice(range.start, range.end)));
    }
    if (this.#options.consistency.kind === 'elastic') {
      await Promise.all(this.#ranges.map((range) => this.#pullNow(range, (values) => values)));
      return;
    }
    this.#parts = this.#sendEarly();
    this.#pulled = this.#pullLate();
    this.#begin(this.#pulled);
    await this.#pulled.arrived();
  }

  /** Throws TensorStateError if a parameter is written here while the servers have its value. */
  checkAssign(): void {
    if (this.#isWriting || !this.keepsStates) return;
    throw new TensorStateError({
      asked: 'to write to a parameter',
      found: 'parameter servers hold its value, and the next step would restore it',
      todo: 'Load weights before parallelize(): the servers begin with those of worker 0',
    });
  }

  async step(request: UpdateRequest): Promise<void> {
    const { consistency } = this.#options;
    if (consistency.kind === 'elastic') {
      // Compute the gradient by the values before the exchange, as in the paper.
      await currentSession().realize([]);
      if (this.#steps % consistency.everySteps === 0) await this.#exchange(consistency.movingRate);
      this.#steps++;
      await request.updateHere();
      return;
    }
    const recipe = this.#recipeOf(request);
    const dtype: SentDtype = this.#options.compress ?? 'f32';
    const leaving = this.#parts?.take() ?? [];
    const gradients = this.#parameters.map(({ grad }) => grad && sentAs(grad, dtype));
    await currentSession().realize(leaving);
    await this.#eachRange(async (range) => {
      const { start, end, link } = range;
      const own = gradients.slice(start, end);
      const present = own.map((gradient) => gradient !== null);
      const arrays = await viewsOf(own.filter((gradient) => gradient !== null));
      const push = { recipe: partOf(recipe, start, end), present, dtype };
      return link.push(push, arrays);
    });
    if (this.#pulled !== null) this.#begin(this.#pulled);
  }

  /** Returns the updates of the parameters to this rank's own optimizers. */
  detach(): void {
    this.#parts?.detach();
    for (const parameter of this.#parameters) parameter.updater = null;
  }

  /** Groups places in the reverse order of the parameters, because the backward pass reaches them in that order. */
  #sendEarly(): GradientParts {
    const dtype: SentDtype = this.#options.compress ?? 'f32';
    return new GradientParts({
      parameters: this.#parameters,
      buckets: this.#bucketsOf((range) => placesIn(range).toReversed()),
      dtype,
      send: async (places, arrays) => {
        const { link, own } = this.#servedBy(places);
        await link.sendPart(own, dtype, arrays);
      },
    });
  }

  async leave(): Promise<void> {
    this.#pulled?.release();
    await Promise.all(this.#ranges.map(({ link }) => link.leave()));
  }

  /**
   * The worker's values move towards the servers' values by the same difference by which these move towards the
   * worker's.
   */
  async #exchange(movingRate: number): Promise<void> {
    await this.#eachRange(async (range) => {
      const own = this.#parameters.slice(range.start, range.end);
      const arrays = await valuesOf(own);
      const push = { recipe: null, present: own.map(() => true), dtype: 'f32' } as const;
      const answer = await range.link.push(push, arrays);
      await this.#pullNow(range, (values) =>
        arrays.map((own, index) =>
          viewBytes(movedTowards(floatsOf(own), floatsOf(values[index]), movingRate)),
        ),
      );
      return answer;
    });
  }

  /** Pulls all values of a range and writes the result of `changed`. */
  async #pullNow(
    range: Range,
    changed: (values: readonly Uint8Array[]) => readonly Uint8Array[],
  ): Promise<void> {
    const own = placesIn({ start: 0, end: range.end - range.start });
    await range.link.pull(own, (values) => this.#write(range, changed(values)));
  }

  /** Groups places in the order of the parameters, because the forward pass reaches them in that order. */
  #pullLate(): PulledValues {
    return new PulledValues({
      parameters: this.#parameters,
      buckets: this.#bucketsOf(placesIn),
      pull: async (places, take) => {
        const { link, own } = this.#servedBy(places);
        await link.pull(own, take);
      },
    });
  }

  #begin(pulled: PulledValues): void {
    this.#isWriting = true;
    try {
      pulled.begin();
    } finally {
      this.#isWriting = false;
    }
  }

  /** Returns the link to the server of some parameters, and their places there. */
  #servedBy(places: readonly number[]): {
    readonly link: ShardLink;
    readonly own: readonly number[];
  } {
    const range = this.#ranges.find(({ start, end }) =>
      places.every((place) => place >= start && place < end),
    );
    if (range === undefined) throw new RangeError('parameters of several servers in one bucket');
    return { link: range.link, own: places.map((place) => place - range.start) };
  }

  /** Makes the buckets of each range, in the order that `placesOf` gives. The first bucket of a range is small. */
  #bucketsOf(placesOf: (range: KeyRange) => readonly number[]): readonly (readonly number[])[] {
    const { bucketBytes, compress = 'f32' } = this.#options;
    const byteLengthAt = (place: number): number =>
      (this.#parameters[place]?.numel ?? 0) * sentBytes[compress];
    return this.#ranges.flatMap((range) => bucketsOf(placesOf(range), byteLengthAt, bucketBytes));
  }

  /** Makes an exchange with each server, and reports it to the worker's program (`onStep`). */
  async #eachRange(exchange: (range: Range) => Promise<ServerAnswer>): Promise<void> {
    const pulled = await Promise.all(this.#ranges.map(exchange));
    this.#options.servers.onStep?.({
      lead: Math.max(...pulled.map(({ lead }) => lead)),
      staleness: Math.max(...pulled.map(({ staleness }) => staleness)),
      waitedMs: Math.max(...pulled.map(({ waitedMs }) => waitedMs)),
      isLate: pulled.some(({ isLate }) => isLate),
    });
  }

  async #write({ start }: KeyRange, values: readonly Uint8Array[]): Promise<void> {
    this.#isWriting = true;
    try {
      withoutValues(() =>
        noGrad(() => {
          values.forEach((bytes, index) => {
            const parameter = this.#parameters[start + index];
            parameter?.assign(fromData(fromBytes(bytes, 'f32'), parameter.shape, 'f32'));
          });
        }),
      );
    } finally {
      this.#isWriting = false;
    }
    await currentSession().realize([]);
  }

  #recipeOf({ optimizer, groups }: UpdateRequest): UpdateRecipe {
    return {
      optimizer,
      groups: groups.map(({ params, settings }) => ({
        params: params.map((parameter) => this.#placeOf(parameter)),
        settings,
      })),
    };
  }

  #placeOf(parameter: object): number {
    const place = this.#places.get(parameter);
    if (place !== undefined) return place;
    throw new TensorStateError({
      asked: 'a step on parameter servers',
      found: 'a parameter of the optimizer is not one of the model',
      todo: 'Use a separate optimizer for that parameter',
    });
  }
}

/** Returns the places of a range in ascending order. */
function placesIn({ start, end }: KeyRange): readonly number[] {
  return Array.from({ length: end - start }, (_, index) => start + index);
}

/** Fills one bucket after the other, in order. A bucket is full when it has at least its limit of bytes. */
function bucketsOf(
  places: readonly number[],
  byteLengthAt: (place: number) => number,
  limitBytes: number,
): readonly (readonly number[])[] {
  const buckets: number[][] = [];
  let leftBytes = 0;
  for (const place of places) {
    if (leftBytes <= 0) {
      leftBytes = buckets.length === 0 ? Math.min(FIRST_BUCKET_BYTES, limitBytes) : limitBytes;
      buckets.push([]);
    }
    buckets.at(-1)?.push(place);
    leftBytes -= byteLengthAt(place);
  }
  return buckets;
}

/** Returns the gradient in the dtype in which it is sent. The next run computes it. */
function sentAs(gradient: Tensor, dtype: SentDtype): Tensor {
  return dtype === 'f32' ? gradient : noGrad(() => gradient.to(dtype)).retain();
}

/** Returns the part of a recipe that concerns a range. Groups keep their places. */
function partOf({ optimizer, groups }: UpdateRecipe, start: number, end: number): UpdateRecipe {
  return {
    optimizer,
    groups: groups.map(({ params, settings }) => ({
      params: params.filter((place) => place >= start && place < end).map((place) => place - start),
      settings,
    })),
  };
}

/** Returns the bytes without copying them. The gradients do not change until the step is over. */
async function viewsOf(tensors: readonly Tensor[]): Promise<readonly Uint8Array[]> {
  const views: Uint8Array[] = [];
  for (const { node } of tensors) views.push(await currentSession().view(node));
  return views;
}

/** Reads values to the host, as bytes. */
async function valuesOf(
  tensors: readonly { data(): Promise<ArrayBufferView> }[],
): Promise<readonly Uint8Array[]> {
  const read: Uint8Array[] = [];
  for (const tensor of tensors) read.push(viewBytes(await tensor.data()));
  return read;
}
