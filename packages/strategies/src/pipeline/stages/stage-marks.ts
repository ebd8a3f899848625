import { currentRegion, LayoutError, type Module, newestNodeId } from '@shardwise/core/extend';

/** A cut that was called too early, and the first cut before it that had not been called. */
interface Early {
  readonly cut: number;
  readonly before: number;
}

/** Records where stages begin in a program: stage s + 1 begins where the module at cut s is called first. */
export class StageMarks {
  readonly #model: Module;
  readonly #cuts: readonly string[];
  #starts: number[] | null = null;
  /** The first cut that was called before the one before it. */
  #early: Early | null = null;
  #remove: (() => void)[] | null = null;

  /** `cuts` are paths of modules, in the order in which the model calls them. */
  constructor(model: Module, cuts: readonly string[]) {
    this.#model = model;
    this.#cuts = cuts;
  }

  /**
   * Runs a forward pass. Nodes with ids above `starts[s]` belong to stage s + 1 or a later one. Throws LayoutError if
   * the modules at the cuts are called in another order, or not at all, or inside a checkpoint, which the backward pass
   * recomputes.
   */
  record<T>(forward: () => T): { readonly result: T; readonly starts: readonly number[] } {
    this.#remove ??= this.#cuts.map((path, cut) =>
      this.#model.getSubmodule(path).registerForwardPreHook(() => this.#enter(cut)),
    );
    const starts: number[] = [];
    this.#starts = starts;
    this.#early = null;
    try {
      const result = forward();
      this.#requireOrder(starts);
      const missing = this.#cuts[starts.length];
      if (missing === undefined) return { result, starts };
      throw this.#error(
        missing,
        'the forward pass did not call it',
        'Cut at modules that every forward pass calls',
      );
    } finally {
      this.#starts = null;
    }
  }

  /** The path of the module with which a stage begins; null for the first one. */
  beginningOf(stage: number): string | null {
    return this.#cuts[stage - 1] ?? null;
  }

  detach(): void {
    for (const remove of this.#remove ?? []) remove();
    this.#remove = null;
  }

  #enter(cut: number): void {
    const starts = this.#starts;
    if (starts === null || cut < starts.length) return;
    const path = this.#cuts[cut] ?? '';
    if (cut > starts.length) {
      this.#early ??= { cut, before: starts.length };
      return;
    }
    if (currentRegion() !== null) {
      const todo = 'Put checkpoint() around modules within a stage, or cut elsewhere';
      throw this.#error(path, 'it is called inside a checkpoint, which backward runs again', todo);
    }
    starts.push(newestNodeId());
  }

  /**
   * Throws if a module was called before an earlier cut that this pass did call. A cut that the pass never calls is
   * another error.
   */
  #requireOrder(starts: readonly number[]): void {
    const early = this.#early;
    if (early === null || starts.length <= early.before) return;
    throw this.#error(
      this.#cuts[early.cut] ?? '',
      `it is called before '${this.#cuts[early.before] ?? ''}', the cut before it`,
      'Give the cuts in the order in which forward() calls the modules',
    );
  }

  #error(path: string, found: string, todo: string): LayoutError {
    const asked = `a pipeline cut at '${path}'`;
    return new LayoutError({ asked, found, todo }, { cut: path });
  }
}
