import {
  axisOf,
  currentSession,
  type Node,
  isGradEnabled,
  noGrad,
  noteUse,
  RecomputeRegion,
  Tensor,
  withCollectiveOrder,
  withoutValues,
} from '@shardwise/core/extend';
import type { AfterForward } from './after-forward.ts';
import type { ShardedPlacement } from '../parts/sharded-reader.ts';
import type { ShardedPart } from '../parts/sharded-part.ts';

export interface ShardedUnitOptions {
  readonly name: string;
  readonly parameters: readonly ShardedPlacement[];
  /**
   * What happens to the whole parameters after forward. Those that are not kept are gathered again in the backward
   * pass.
   */
  readonly afterForward: AfterForward;
  /** Called when the backward pass reaches this unit. */
  readonly onBackward: () => void;
}

/** The parameters of a module, which are whole together while its forward or backward pass runs. */
export class ShardedUnit {
  readonly name: string;
  readonly parameters: readonly ShardedPlacement[];
  readonly #afterForward: AfterForward;
  readonly #region: RecomputeRegion | null;
  readonly #collected = new Map<ShardedPlacement, Collected>();
  #lastCollected: readonly Node[] = [];
  /** The nodes that the latest forward pass with gradients has gathered together with all ranks. */
  #collectedForAll: readonly Node[] = [];
  /** Whether the forward pass has read them. */
  #readsForAll = false;
  /**
   * The nodes that the latest forward pass has gathered for each parameter. There are several if the pass came here
   * several times.
   */
  readonly #uses: readonly Set<Node>[];
  /** The messages of which these nodes are made. */
  readonly #messages = new Set<Node>();
  /** The messages that the backward pass has received again, by those that the forward pass had received. */
  readonly #again = new Map<Node, Node>();

  constructor(options: ShardedUnitOptions) {
    this.name = options.name;
    this.parameters = options.parameters;
    this.#afterForward = options.afterForward;
    this.#uses = this.parameters.map(() => new Set());
    this.#region =
      options.afterForward.kind === 'keep'
        ? null
        : new RecomputeRegion({
            keeps: () => false,
            onBackward: options.onBackward,
            onRemade: (node, remade) => {
              if (this.#messages.has(node)) this.#again.set(node, remade);
            },
          });
  }

  /**
   * Gathers the parts at the present place of the program: at their use, or ahead of it. Parts that were gathered
   * before an update are gathered again. Those that nothing reads are not gathered.
   */
  collect(): readonly Node[] {
    return this.#inRegion(() =>
      this.parameters.map((parameter) => {
        const known = this.#collected.get(parameter);
        const part = parameter.reader.sharded;
        if (known !== undefined && isCurrent(part, known)) return known.padded;
        const collected = { version: part.version, padded: part.collect() };
        this.#collected.set(parameter, collected);
        return collected.padded;
      }),
    );
  }

  /**
   * Gathers the parts at the present place of the program, whether or not this rank reads them, because other ranks may.
   */
  collectForAll(): void {
    const collected = this.collect();
    if (isGradEnabled()) {
      this.#collectedForAll = collected;
      this.#readsForAll = false;
    }
    for (const [index, padded] of collected.entries()) {
      if (padded.isUnused) noteUse(padded);
      this.#use(padded, index);
    }
  }

  /** Gathers the parts again in a backward pass, whether or not this rank reads them. */
  collectAgainForAll(): void {
    const messages = this.#messagesOf(this.#collectedForAll);
    const again = (): void => this.#region?.prefetch(messages);
    // No run keeps a value that is made inside the region. One that is made outside may be read in a later run.
    if (this.#readsForAll) again();
    else this.#inRegion(again);
    for (const message of messages) {
      const remade = this.#again.get(message);
      if (remade?.isUnused === true) noteUse(remade);
    }
  }

  /** Gathers the parts again in a backward pass. */
  collectAgain(): void {
    this.#region?.prefetch(this.#messagesOf(this.#lastCollected));
  }

  /** Whether the whole parameters of a pass are kept until its end. */
  get keeps(): boolean {
    return this.#region === null;
  }

  /** Forgets the gathered parameters. */
  release(): void {
    this.#collected.clear();
  }

  /** Begins a forward pass of the model, or of this unit alone. */
  begin(): void {
    for (const nodes of this.#uses) nodes.clear();
    this.#messages.clear();
    // A gather that nothing has used is made again, at its use.
    for (const [parameter, { padded }] of this.#collected) {
      if (padded.isUnused) this.#collected.delete(parameter);
    }
    for (const parameter of this.parameters) parameter.reader.lastGatheredForStage = null;
    this.#again.clear();
  }

  /**
   * Counts how many times the latest pass has gathered each parameter. Parameters that nothing reads are not gathered.
   */
  gathers(pass: 'forward' | 'backward'): ReadonlyMap<ShardedPlacement, number> {
    return new Map(
      this.parameters.map((parameter, index) => {
        const forward = [...(this.#uses[index] ?? [])];
        const nodes =
          pass === 'forward'
            ? forward
            : forward.flatMap((node) => {
                const [message] = parameter.reader.sharded.messagesOf(node);
                return message === undefined ? [] : (this.#again.get(message.node) ?? []);
              });
        const { lastGatheredForStage } = parameter.reader;
        const sent =
          pass === 'forward' && lastGatheredForStage !== null ? [lastGatheredForStage] : [];
        return [parameter, [...nodes, ...sent].filter(wasVisited).length];
      }),
    );
  }

  /** Whether there has been a forward pass. */
  get hasRun(): boolean {
    return this.#lastCollected.length > 0 || this.#collectedForAll.length > 0;
  }

  /**
   * Runs `body` with the whole parameters in place of the parts. `releases`: another run in this pass gathers them
   * again, unless the unit keeps them.
   */
  whole<T>(body: () => T, releases = true): T {
    const collected = this.collect();
    this.#lastCollected = collected;
    if (collected[0] === this.#collectedForAll[0]) this.#readsForAll = true;
    for (const [index, padded] of collected.entries()) {
      this.#use(padded, index);
    }
    this.#inRegion(() => {
      for (const [index, parameter] of this.parameters.entries()) {
        const padded = collected[index];
        if (padded === undefined) throw new RangeError('a parameter that was not collected');
        const leaf = parameter.reader.leafOf(padded);
        parameter.useInForward(() => leaf);
      }
    });
    try {
      return body();
    } finally {
      for (const parameter of this.parameters) parameter.useInForward(null);
      if (releases && this.#region !== null) this.release();
    }
  }

  /**
   * Notes a parameter that was gathered. If neighbouring ranks keep parts of it, this rank keeps its part, from which they
   * gather the parameter again.
   */
  #use(padded: Node, index: number): void {
    this.#uses[index]?.add(padded);
    const messages = this.parameters[index]?.reader.sharded.messagesOf(padded) ?? [];
    for (const { node } of messages) this.#messages.add(node);
    if (this.#region === null || this.#afterForward.kind !== 'reshard' || !isGradEnabled()) return;
    const { axis } = this.#afterForward;
    const { size, rank } = axisOf(currentSession().mesh, axis);
    for (const { node, again } of messages) {
      const rows = (node.shape[0] ?? 0) / size;
      const part = withCollectiveOrder('ifUsed', () =>
        withoutValues(() =>
          noGrad(() => new Tensor(node).slice(0, rank * rows, (rank + 1) * rows)),
        ),
      );
      this.#region.remake(node, { source: part.node, make: () => again(part, axis).node });
    }
  }

  /** The messages that make gathered parameters. */
  #messagesOf(collected: readonly Node[]): readonly Node[] {
    return collected.flatMap((padded, index) =>
      (this.parameters[index]?.reader.sharded.messagesOf(padded) ?? []).map(({ node }) => node),
    );
  }

  #inRegion<T>(body: () => T): T {
    return withCollectiveOrder('ifUsed', () =>
      withoutValues(() => (this.#region === null ? body() : this.#region.run(body))),
    );
  }
}

/** A gathered parameter, and the version of this rank's part from which it was gathered. */
interface Collected {
  readonly version: number;
  readonly padded: Node;
}

/** Returns whether a run has visited a node. */
function wasVisited({ mark }: Node): boolean {
  return mark > 0;
}

/** Returns whether the part has not been updated since. */
function isCurrent(part: ShardedPart, { version, padded }: Collected): boolean {
  return version === part.version && padded.id > version;
}
