import {
  allGather,
  allReduce,
  type AttentionRequest,
  declareAxisTypes,
  formatShape,
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
import type { SequenceCuts } from './sequence-cuts.ts';
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

/** How the sequence of the queries of an attention is cut, and that of its keys. */
interface AttentionCuts {
  readonly queries: SequenceCut;
  readonly keys: SequenceCut;
}

/** A rank's part of the sequences of one forward pass, and its attention to the other parts. */
export class ContextPart implements SequencePart {
  readonly #cuts: SequenceCuts;
  readonly #place: ContextPlace;
  readonly #messages: ContextMessages;
  readonly #ownPlaces = new Map<SequenceCut, Tensor>();
  readonly #blockPlaces = new Map<SequenceCut, Tensor>();

  constructor(cuts: SequenceCuts, place: ContextPlace, messages: ContextMessages) {
    this.#cuts = cuts;
    this.#place = place;
    this.#messages = messages;
  }

  places(length: number): Node | null {
    const cut = this.#cuts.ofLocalLength(length);
    if (cut === undefined) return null;
    if (this.#place.countsPlaces) return this.#placesOfRank(cut).node;
    throw uncounted(cut, this.#place);
  }

  gather(x: Node, dim: number): Node {
    const cut = this.#cuts.ofLocalLength(x.shape.at(dim));
    if (cut === undefined) throw ungathered(x, dim, this.#place);
    this.#messages.beginAttention();
    return this.#gathered('tokens', new Tensor(x), dim, cut).node;
  }

  sum(x: Node): Node {
    const { axis } = this.#place;
    return named(axis, () => allReduce(new Tensor(x).detach(), axis)).node;
  }

  attend(request: AttentionRequest, compute: (request: AttentionRequest) => Node): Node {
    if (isShared(request.k, this.#place.axis)) return compute(request);
    const cuts = this.#cutsOf(request);
    this.#messages.beginAttention();
    return outsideSequencePart(() =>
      withoutValues(() =>
        this.#place.method === 'allGather'
          ? this.#attendToGathered(request, cuts, compute)
          : this.#attendInGroups(request, cuts, compute),
      ),
    );
  }

  /** The keys of all parts come to each rank, in the order of the sequence. */
  #attendToGathered(
    request: AttentionRequest,
    cuts: AttentionCuts,
    compute: (request: AttentionRequest) => Node,
  ): Node {
    const { k, v } = request;
    const ranges = this.#visibleKeys(request, this.#placesOfRank(cuts.queries), cuts);
    return compute({
      ...request,
      k: this.#gathered('keys', new Tensor(k), 2, cuts.keys).node,
      v: this.#gathered('values', new Tensor(v), 2, cuts.keys).node,
      mask: this.#maskOfAll(request.mask, cuts.keys)?.node,
      ranges: ranges.node,
      params: { ...request.params, causal: false, hasKeyRanges: true },
    });
  }

  /** Neighbouring ranks exchange tokens for heads. Groups of them pass keys on in a ring. */
  #attendInGroups(
    request: AttentionRequest,
    cuts: AttentionCuts,
    compute: (request: AttentionRequest) => Node,
  ): Node {
    const { over, groups } = cuts.queries;
    const { axis, rank, headAxis } = this.#place;
    const { neighbours } = over;
    const given = { q: new Tensor(request.q), k: new Tensor(request.k), v: new Tensor(request.v) };
    const heads = given.q.shape[1] ?? 0;
    const exchange = { axis: headAxis, ranks: neighbours, messages: this.#messages };
    const { q, k, v }: ExchangedHeads = neighbours === 1 ? given : scatterHeads(given, exchange);
    const ranges = this.#visibleKeys(
      { ...request, ranges: this.#ofGroup(request.ranges, neighbours) },
      neighbours === 1 ? this.#placesOfRank(cuts.queries) : this.#placesOfGroup(cuts.queries),
      cuts,
    );
    const mask = this.#maskOfAll(request.mask, cuts.keys);
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
              blockOf: (each) => cuts.keys.stretchesOfGroup(each),
              messages: this.#messages,
            },
          ).node;
    return neighbours === 1 ? y : gatherHeads(new Tensor(y), heads, exchange).node;
  }

  #visibleKeys(
    { params, ranges }: Pick<AttentionRequest, 'params' | 'ranges'>,
    places: Tensor,
    { keys }: AttentionCuts,
  ): Tensor {
    return visibleKeys({
      places,
      length: keys.length,
      causal: params.causal,
      ranges: ranges === undefined ? null : new Tensor(ranges),
    });
  }

  /** The ranges of the queries of all ranks of this group. Shape: i32 [B|1, T, 2] -> [B|1, neighbours T, 2]. */
  #ofGroup(ranges: Node | undefined, neighbours: number): Node | undefined {
    const { headAxis } = this.#place;
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
  #maskOfAll(mask: Node | undefined, cut: SequenceCut): Tensor | null {
    return mask === undefined
      ? null
      : noGrad(() => this.#gathered('mask', new Tensor(mask), 3, cut));
  }

  /** Collects a dim of tokens from all parts, in the order of the sequence. Shape: [.., T, ..] -> [.., places, ..]. */
  #gathered(what: string, x: Tensor, dim: number, cut: SequenceCut): Tensor {
    const { axis } = this.#place;
    this.#messages.ofAttention({
      what,
      becomes: 'those of all ranks',
      axis,
      elements: x.numel * cut.over.ranks,
      dtype: x.dtype,
      forward: 'allGather',
      backward: x.requiresGrad ? 'reduceScatter' : null,
    });
    return takeStretches(
      named(axis, () => allGather(x, axis, dim)),
      dim,
      cut.inOrder('ranks'),
    );
  }

  /** The places of this rank's tokens. Shape: -> i32 [T]. */
  #placesOfRank(cut: SequenceCut): Tensor {
    const { rank } = this.#place;
    return this.#kept(this.#ownPlaces, cut, () => cut.stretchesOf(rank));
  }

  /** The places of the tokens of this rank and its neighbours. Shape: -> i32 [neighbours T]. */
  #placesOfGroup(cut: SequenceCut): Tensor {
    const group = Math.floor(this.#place.rank / cut.over.neighbours);
    return this.#kept(this.#blockPlaces, cut, () => cut.stretchesOfGroup(group));
  }

  /** Makes a leaf of places for a cut once. Padding has place 0, which every model knows. */
  #kept(
    of: Map<SequenceCut, Tensor>,
    cut: SequenceCut,
    stretchesOf: () => readonly Stretch[],
  ): Tensor {
    const known = of.get(cut);
    if (known !== undefined) return known;
    const places = stretchesOf().flatMap(({ start, stop }) =>
      Array.from({ length: stop - start }, (_, at) => (start + at < cut.length ? start + at : 0)),
    );
    // A leaf and not a constant, so that all ranks and lengths have programs of one structure.
    const leaf = fromData(Int32Array.from(places), [places.length], 'i32');
    const own = declareAxisTypes(leaf, { [this.#place.axis]: 'varying' }, 'the places of tokens');
    of.set(cut, own);
    return own;
  }

  /** The cuts of queries and keys. Throws LayoutError for what the method cannot compute exactly. */
  #cutsOf({ q, k, mask, dropout }: AttentionRequest): AttentionCuts {
    const { axis, method } = this.#place;
    const [, heads = 0, queries = 0] = q.shape;
    const [, , keys = 0] = k.shape;
    const refuse = (found: string, todo: string): LayoutError =>
      new LayoutError(
        { asked: `attention by the method '${method}' over '${axis}'`, found, todo },
        { axis, method, queries, keys },
      );
    const ofQueries = this.#cuts.ofLocalLength(queries);
    const ofKeys = this.#cuts.ofLocalLength(keys);
    if (ofQueries === undefined || ofKeys === undefined) {
      const parts = this.#cuts.all.map(
        ({ localLength, length }) => `${localLength} tokens of a sequence of ${length}`,
      );
      throw refuse(
        `${queries} queries and ${keys} keys that differ between the ranks, each of which has ${parts.join(' and ')}`,
        'Attend to the tokens of the sequence, or to values that all ranks have. For an input that is a sequence of another length, say contextParallel({ sequences })',
      );
    }
    if (mask !== undefined && (mask.requiresGrad || mask.shape[1] !== 1 || mask.shape[2] !== 1)) {
      throw refuse(
        `a mask of shape [${mask.shape.join(', ')}], which differs between queries or heads, or trains: this rank has only its own queries and keys of the ${ofKeys.length}`,
        'Say with causal and keyRanges which keys a query sees, or give a mask of keys alone: [B, 1, 1, T]',
      );
    }
    const { neighbours } = ofQueries.over;
    if (neighbours > heads) {
      throw refuse(
        `${heads} heads for ${neighbours} ranks, some of which would have none`,
        `Use at most ${heads} ranks, or the method 'ring'`,
      );
    }
    if (dropout > 0 && ofQueries.groups > 1 && method !== 'allGather') {
      throw refuse(
        'dropout of attention weights, which no rank has as a whole',
        "Leave it out, or use the method 'allGather' or 'ulysses'",
      );
    }
    return { queries: ofQueries, keys: ofKeys };
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

function ungathered({ shape }: Node, dim: number, { axis }: ContextPlace): LayoutError {
  return new LayoutError(
    {
      asked: `the tokens of all ranks of '${axis}', of dim ${dim} of a tensor of shape ${formatShape(shape)}`,
      found: 'a dim that does not count the tokens that this rank has of a sequence',
      todo: 'Collect tensors of tokens alone',
    },
    { shape, dim, axis },
  );
}
