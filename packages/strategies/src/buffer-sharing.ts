import { isGradEnabled, type Module, noGrad, type Tensor } from '@shardwise/core/extend';
import { shareBuffers } from './share-buffers.ts';

/**
 * Says when a model's buffers, as batch-norm statistics, become those of rank 0: before each forward pass
 * that trains, and before the first one of an evaluation after training. So all ranks evaluate with the
 * same ones, and may do so with different numbers of batches.
 */
export class BufferSharing {
  readonly #module: Module;
  /** A pass that trains leaves each rank its own. */
  #mayDiffer = true;

  constructor(module: Module) {
    this.#module = module;
  }

  /** Whether the forward pass that begins is to share them: the same on all ranks. */
  begin({ synchronizes }: { readonly synchronizes: boolean }): boolean {
    if (this.#module.namedBuffers().length === 0) return false;
    const trains = this.#module.namedModules().some(([, { training }]) => training);
    const shares = (synchronizes && (trains || isGradEnabled())) || (!trains && this.#mayDiffer);
    this.#mayDiffer = trains || (this.#mayDiffer && !shares);
    return shares;
  }

  /** All ranks have been given the same ones. */
  settle(): void {
    this.#mayDiffer = false;
  }

  /** `send` makes a value that of rank 0. Shape: N -> N. */
  share(send: (message: Tensor) => Tensor): void {
    const buffers = this.#module.namedBuffers().map(([, buffer]) => buffer);
    noGrad(() => shareBuffers(buffers, send));
  }
}
