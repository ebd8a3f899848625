import type { Node } from '../graph/node.ts';
import type { PageSource, PageStore } from '../paging/page.ts';
import type { Backend } from '../spec/backend.ts';
import type { TensorStateError } from '../spec/errors.ts';
import type { Mesh } from '../spec/mesh.ts';
import type { ProcessGroup } from '../spec/process-group.ts';

/** Computes these nodes, and no other pending work. */
export type Compute = (nodes: readonly Node[]) => Promise<void>;

/** Work that is done later. Returns whether it has changed values that were computed before it. */
export type Postponed = (compute: Compute) => Promise<boolean>;

export interface WorkAheadOptions {
  /** Whether the work takes over what was postponed, by `takePostponed`. Default: false. */
  readonly takesPostponed?: boolean;
}

/** A rank's tensors: computes them on its device, reads them, and moves them out of it. Calls run one after another. */
export interface Session {
  readonly backend: Backend;
  readonly mesh: Mesh;

  /** Whether the device is at work, so that memory of it may be changing. */
  readonly isComputing: boolean;

  /**
   * Gives the mesh one more group, which `make` makes of that of an axis: once for each name, also for later sessions, as
   * groups are few. A collective, where `make` is one.
   */
  extendMesh(
    name: string,
    axis: string,
    make: (group: ProcessGroup) => Promise<ProcessGroup>,
  ): Promise<void>;

  /** Settles when no call is under way, also of those that nobody has awaited. */
  finish(): Promise<void>;

  /** The number by which ops name a store. */
  numberOf(store: PageStore | PageSource): number;

  /** Computes `nodes` and all that is pending. */
  realize(nodes: readonly Node[]): Promise<void>;

  /** Computes a node and copies its bytes; unless it is resident, it lives on the host from then on. */
  fetch(node: Node): Promise<Uint8Array>;

  /**
   * Computes a node that keeps its memory, and gives its bytes where they lie, if the device computes in host memory; else
   * a copy. They are valid until the node is updated or freed.
   */
  view(node: Node): Promise<Uint8Array>;

  /**
   * Moves a leaf's contents to a store; each run that needs them has them on the device for as long
   * as it needs them, and an update brings them back.
   */
  pageOut(leaf: Node, name: string, store: PageStore): Promise<void>;

  /**
   * Begins to compute what is pending now, without anyone waiting for it. The next call that computes
   * something throws what it fails with.
   */
  computeAhead(): void;

  /**
   * Begins work that computes several times, without anyone waiting for it: later calls wait until it is over. The
   * next one that computes something throws what it fails with.
   */
  workAhead(work: (compute: Compute) => Promise<void>, options?: WorkAheadOptions): void;

  /**
   * Has the next call do this first, or work that says that it takes it over, and does it in its midst. Throws
   * RangeError where something is postponed already.
   */
  postpone(work: Postponed): void;

  /** For work that takes over what was postponed; null where nothing was. */
  takePostponed(): Postponed | null;

  /**
   * Has this rank refuse all further work, since tensors that belong together were updated in part before
   * `cause`. Returns the error that everything throws from now on.
   */
  refuse(cause: unknown): TensorStateError;
}
