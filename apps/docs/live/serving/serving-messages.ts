import type { CacheState, EngineStatistics } from '@shardwise/serve';

/** What the page tells its worker. */
export type ServingOrder =
  /** Trains for so many steps, and then serves. */
  | {
      readonly kind: 'begin';
      readonly device: 'auto' | 'wasm' | 'webgpu';
      readonly steps: number;
    }
  | { readonly kind: 'ask'; readonly id: number; readonly prompt: string; readonly seed: number }
  | { readonly kind: 'cancel'; readonly id: number }
  /** How many milliseconds pass between steps. */
  | { readonly kind: 'pace'; readonly pauseMs: number };

/** A request of the page, as far as it has been answered. */
export interface ServedText {
  readonly id: number;
  /** The number of its sequence in the engine. */
  readonly sequence: number;
  readonly prompt: string;
  readonly text: string;
  readonly isOver: boolean;
}

/** What the worker tells the page. */
export type ServingNews =
  | {
      readonly kind: 'training';
      readonly device: string;
      readonly step: number;
      readonly loss: number;
    }
  | {
      readonly kind: 'serving';
      readonly cache: CacheState;
      readonly statistics: EngineStatistics;
      readonly texts: readonly ServedText[];
    }
  | { readonly kind: 'failed'; readonly message: string };

/** The number of tokens that the model sees at once. */
export const CONTEXT = 64;
/** Blocks of the cache, which has room for three texts of a whole context. */
export const BLOCKS = 24;
export const BLOCK_SIZE = 8;
