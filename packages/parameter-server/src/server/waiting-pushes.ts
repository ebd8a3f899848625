import { floatsOf, viewBytes } from '../protocol/arrays.ts';
import type { UpdateRecipe } from '../protocol/job.ts';
import type { ShardHead } from '../protocol/shard-head.ts';

/** A push that waits for those of other workers. */
export interface WaitingPush {
  readonly recipe: UpdateRecipe;
  /** The gradient of each parameter. Null if the worker has none. */
  readonly gradients: readonly (Float32Array | null)[];
}

/** The update that pushes make together. */
export interface JointUpdate {
  /** The workers in ascending order. */
  readonly workers: readonly number[];
  readonly recipe: UpdateRecipe;
  /** The gradients of each parameter, in the order of the workers. */
  readonly gradients: readonly (readonly (Float32Array | null)[])[];
}

/** The pushes of a synchronous step, until enough workers have sent theirs. */
export class WaitingPushes {
  readonly #pushes = new Map<number, WaitingPush>();

  get size(): number {
    return this.#pushes.size;
  }

  has(worker: number): boolean {
    return this.#pushes.has(worker);
  }

  set(worker: number, push: WaitingPush): void {
    this.#pushes.set(worker, push);
  }

  delete(worker: number): void {
    this.#pushes.delete(worker);
  }

  clear(): void {
    this.#pushes.clear();
  }

  /** Takes all pushes. The recipe is that of the first worker. Undefined if there is no push. */
  take(): JointUpdate | undefined {
    const inOrder = [...this.#pushes].toSorted(([a], [b]) => a - b);
    const first = inOrder[0]?.[1];
    if (first === undefined) return undefined;
    this.#pushes.clear();
    return {
      workers: inOrder.map(([worker]) => worker),
      recipe: first.recipe,
      gradients: first.gradients.map((_, index) =>
        inOrder.map(([, { gradients }]) => gradients[index] ?? null),
      ),
    };
  }

  head(): ShardHead['waiting'] {
    return [...this.#pushes].map(([worker, { recipe, gradients }]) => ({
      worker,
      recipe,
      present: gradients.map((gradient) => gradient !== null),
    }));
  }

  /** The gradients that are present, in the order of `head`. */
  arrays(): readonly Uint8Array[] {
    return [...this.#pushes.values()].flatMap(({ gradients }) =>
      gradients.flatMap((gradient) => (gradient === null ? [] : viewBytes(gradient))),
    );
  }

  restore(head: ShardHead['waiting'], arrays: readonly Uint8Array[]): void {
    this.#pushes.clear();
    let next = 0;
    for (const { worker, recipe, present } of head) {
      // Snapshots lend their arrays only while they are restored.
      const gradients = present.map((isPresent) =>
        isPresent ? floatsOf(arrays[next++]?.slice()) : null,
      );
      this.#pushes.set(worker, { recipe, gradients });
    }
  }
}
