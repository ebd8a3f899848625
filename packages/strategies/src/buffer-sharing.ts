import { isGradEnabled, type Module, noGrad, type Tensor } from '@shardwise/core/extend';
import { shareBuffers } from './share-buffers.ts';

/**
 * Decides when a model's buffers, such as batch-norm statistics, are replaced by those of rank 0: before each forward
 * pass that trains, and before the first one of an evaluation after training. All ranks then evaluate with the same
 * buffers, and may do so with different numbers of batches.
 */
export class BufferSharing {
  readonly #module: Module;
  /** Whether ranks may have different buffers, because a pass has trained since they were shared. */
  #mayDiffer = true;

  constructor(module: Module) {
    this.#module = module;
  }

  /** Returns whether the forward pass that begins must share buffers. The result is the same on all ranks. */
  begin({ synchronizes }: { readonly synchronizes: boolean }): boolean {
    if (this.#module.namedBuffers().length === 0) return false;
    const trains = this.#module.namedModules().some(([, { training }]) => training);
    const shares = (synchronizes && (trains || isGradEnabled())) || (!trains && this.#mayDiffer);
    this.#mayDiffer = trains || (this.#mayDiffer && !shares);
    return shares;
  }

  /** Call this when all ranks have got the same buffers. */
  settle(): void {
    this.#mayDiffer = false;
  }

  /** Shares all buffers. `send` returns rank 0's value. Shape: N -> N. */
  share(send: (message: Tensor) => Tensor): void {
    const buffers = this.#module.namedBuffers().map(([, buffer]) => buffer);
    noGrad(() => shareBuffers(buffers, send));
  }
}
