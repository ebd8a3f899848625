import {
  allGather,
  type AttentionRequest,
  declareAxisTypes,
  fromData,
  LayoutError,
  type Node,
  noGrad,
  outsideSequencePart,
  type SequencePart,
  Tensor,
  withCollectiveName,
  withoutValues,
} from '@shardwise/core/extend';
import type { ContextMessages } from './context-messages.ts';
import { type ExchangedHeads, gatherHeads, scatterHeads } from './exchange-heads.ts';
import { visibleKeys } from './key-ranges.ts';
import type { ContextMethod } from './methods.ts';
import { ringAttention } from './ring-attention.ts';
import type { SequenceCut, Stretch } from './sequence-cut.ts';
import { takeStretches } from './stretches.ts';

/** How ranks of an axis attend to each other's tokens. */
export interface ContextPlace {
  readonly axis: string;
  readonly rank: number;
  readonly method: ContextMethod;
  /** The axis of the ranks that divide heads. */
  readonly headAxis: string;
  /** Whether `arange(T)` of this rank's number of tokens stands for their places. */
  readonly countsPlaces: boolean;
}

/** A rank's part of the sequences of one forward pass, and its attention to the other parts. */
export class ContextPart implements SequencePart {
  readonly cut: SequenceCut;
  readonly #place: ContextPlace;
  readonly #messages: ContextMessages;
  #places: Tensor | null = null;
  #blockPlaces: Tensor | null = null;

  constructor(cut: SequenceCut, place: ContextPlace, messages: ContextMessages) {
    this.cut = cut;
    this.#place = place;
    this.#messages = messages;
  }

  places(length: number): Node | null {
    if (length !== this.cut.localLength) return null;
    if (this.#place.countsPlaces) return this.#ownPlaces().node;
    throw uncounted(this.cut, this.#place);
  }

  gather(x: Node, dim: number): Node {
    this.#messages.beginAttention();
    return this.#gathered('tokens', new Tensor(x), dim).node;
  }

  attend(request: AttentionRequest, compute: (request: AttentionRequest) => Node): Node {
    if (isShared(request.k, this.#place.axis)) return compute(request);
    this.#check(request);
    this.#messages.beginAttention();
    return outsideSequencePart(() =>
      withoutValues(() =>
        this.#place.method === 'allGather'
          ? this.#attendToGathered(request, compute)
          : this.#attendInGroups(request, compute),
      ),
    );
  }

  /** The keys of all parts come to each rank, in the order of the sequence. */
  #attendToGathered(request: AttentionRequest, compute: (request: AttentionRequest) => Node): Node {
    const { k, v } = request;
    const ranges = this.#visibleKeys(request, this.#ownPlaces());
    return compute({
      ...request,
      k: this.#gathered('keys', new Tensor(k), 2).node,
      v: this.#gathered('values', new Tensor(v), 2).node,
      mask: this.#maskOfAll(request.mask)?.node,
      ranges: ranges.node,
      params: { ...request.params, causal: false, hasKeyRanges: true },
    });
  }

  /** Neighbouring ranks exchange tokens for heads. Groups of them pass keys on in a ring. */
  #attendInGroups(request: AttentionRequest, compute: (request: AttentionRequest) => Node): Node {
    const { over, groups } = this.cut;
    const { axis, rank, headAxis } = this.#place;
    const { neighbours } = over;
    const given = { q: new Tensor(request.q), k: new Tensor(request.k), v: new Tensor(request.v) };
    const heads = given.q.shape[1] ?? 0;
    const exchange = { axis: headAxis, ranks: neighbours, messages: this.#messages };
    const { q, k, v }: ExchangedHeads = neighbours === 1 ? given : scatterHeads(given, exchange);
    const ranges = this.#visibleKeys(
      { ...request, ranges: this.#ofGroup(request.ranges) },
      neighbours === 1 ? this.#ownPlaces() : this.#placesOfGroup(),
    );
    const mask = this.#maskOfAll(request.mask);
    const { params } = request;
    const y =
      groups === 1
        ? compute({
            q: q.node,
            k: k.node,
            v: v.node,
            mask: mask?.node,
            ranges: ranges.node,
            params: { ...params, causal: false, hasKeyRanges: true },
            dropout: request.dropout,
          })
        : ringAttention(
            { q, k, v, ranges, mask, params },
            {
              axis,
              destination: Array.from(
                { length: over.ranks },
                (_, each) => (each + neighbours) % over.ranks,
              ),
              size: groups,
              group: Math.floor(rank / neighbours),
              blockOf: (group) => this.cut.stretchesOfGroup(group),
              messages: this.#messages,
            },
          ).node;
    return neighbours === 1 ? y : gatherHeads(new Tensor(y), heads, exchange).node;
  }

  #visibleKeys({ params, ranges }: Pick<AttentionRequest, 'params' | 'ranges'>, places: Tensor) {
    return visibleKeys({
      places,
      length: this.cut.length,
      causal: params.causal,
      ranges: ranges === undefined ? null : new Tensor(ranges),
    });
  }

  /** The ranges of the queries of all ranks of this group. Shape: i32 [B|1, T, 2] -> [B|1, neighbours T, 2]. */
  #ofGroup(ranges: Node | undefined): Node | undefined {
    const { headAxis } = this.#place;
    const { neighbours } = this.cut.over;
    if (ranges === undefined || neighbours === 1) return ranges;
    this.#messages.ofAttention({
      what: 'ranges of keys',
      becomes: 'those of the queries of a group',
      axis: headAxis,
      elements: new Tensor(ranges).numel * neighbours,
      dtype: 'i32',
      forward: 'allGather',
    });
    return named(headAxis, () => allGather(new Tensor(ranges), headAxis, 1)).node;
  }

  /** The mask of the keys of all parts, in the order of the sequence. Shape: [B|1, 1, 1, T] -> [B|1, 1, 1, places]. */
  #maskOfAll(mask: Node | undefined): Tensor | null {
    return mask === undefined ? null : noGrad(() => this.#gathered('mask', new Tensor(mask), 3));
  }

  /** Collects a dim of tokens from all parts, in the order of the sequence. Shape: [.., T, ..] -> [.., places, ..]. */
  #gathered(what: string, x: Tensor, dim: number): Tensor {
    const { axis } = this.#place;
    this.#messages.ofAttention({
      what,
      becomes: 'those of all ranks',
      axis,
      elements: x.numel * this.cut.over.ranks,
      dtype: x.dtype,
      forward: 'allGather',
      backward: x.requiresGrad ? 'reduceScatter' : null,
    });
    return takeStretches(
      named(axis, () => allGather(x, axis, dim)),
      dim,
      this.cut.inOrder('ranks'),
    );
  }

  /** The places of this rank's tokens. Padding has place 0, which every model knows. Shape: i32 [T]. */
  #ownPlaces(): Tensor {
    this.#places ??= this.#leaf(this.cut.stretchesOf(this.#place.rank));
    return this.#places;
  }

  #placesOfGroup(): Tensor {
    const group = Math.floor(this.#place.rank / this.cut.over.neighbours);
    this.#blockPlaces ??= this.#leaf(this.cut.stretchesOfGroup(group));
    return this.#blockPlaces;
  }

  #leaf(stretches: readonly Stretch[]): Tensor {
    const places = stretches.flatMap(({ start, stop }) =>
      Array.from({ length: stop - start }, (_, at) =>
        start + at < this.cut.length ? start + at : 0,
      ),
    );
    // A leaf and not a constant, so that all ranks and lengths have programs of one structure.
    const leaf = fromData(Int32Array.from(places), [places.length], 'i32');
    return declareAxisTypes(leaf, { [this.#place.axis]: 'varying' }, 'the places of tokens');
  }

  #check({ q, k, mask, dropout }: AttentionRequest): void {
    const { localLength } = this.cut;
    const { axis, method } = this.#place;
    const [, heads = 0, queries = 0] = q.shape;
    const [, , keys = 0] = k.shape;
    const refuse = (found: string, todo: string): LayoutError =>
      new LayoutError(
        { asked: `attention by the method '${method}' over '${axis}'`, found, todo },
        { axis, method, queries, keys, localLength },
      );
    if (queries !== localLength || keys !== localLength) {
      throw refuse(
        `${queries} queries and ${keys} keys that differ between the ranks, each of which has ${localLength} tokens of a sequence of ${this.cut.length}`,
        'Attend to the tokens of the sequence, or to values that all ranks have',
      );
    }
    if (mask !== undefined && (mask.requiresGrad || mask.shape[1] !== 1 || mask.shape[2] !== 1)) {
      throw refuse(
        `a mask of shape [${mask.shape.join(', ')}], which differs between queries or heads, or trains: this rank has only its own queries and keys of the ${this.cut.length}`,
        'Say with causal and keyRanges which keys a query sees, or give a mask of keys alone: [B, 1, 1, T]',
      );
    }
    const { neighbours } = this.cut.over;
    if (neighbours > heads) {
      throw refuse(
        `${heads} heads for ${neighbours} ranks, some of which would have none`,
        `Use at most ${heads} ranks, or the method 'ring'`,
      );
    }
    if (dropout > 0 && this.cut.groups > 1 && method !== 'allGather') {
      throw refuse(
        'dropout of attention weights, which no rank has as a whole',
        "Leave it out, or use the method 'allGather' or 'ulysses'",
      );
    }
  }
}

/** Whether all ranks have the same keys, as those of a memory that is not cut. */
function isShared({ axisTypes }: Node, axis: string): boolean {
  const type = axisTypes?.on(axis);
  return type === 'replicate' || type === 'invariant' || type === 'uniform';
}

function named<T>(axis: string, body: () => T): T {
  return withCollectiveName(`the keys of attention over '${axis}'`, body);
}

function uncounted(cut: SequenceCut, { axis }: ContextPlace): LayoutError {
  const { localLength, length } = cut;
  return new LayoutError(
    {
      asked: `arange(${localLength}) in a forward pass under contextParallel`,
      found: `${localLength} is the number of tokens that this rank of '${axis}' has of a sequence of ${length}, so they would be numbered from 0 on each rank`,
      todo: "Say what it stands for: contextParallel({ arange: 'places' }) if it counts the tokens. Or give the model the positions as an input",
    },
    { axis, localLength, length },
  );
}
