import { type Module, Parameter } from '@shardwise/core/extend';
import type { BlockFormat } from './block-format.ts';

/** A module whose weight is kept in blocks of few bits. */
interface KeptInBlocks {
  readonly format: BlockFormat;
  /** The bytes of the blocks, in u8. */
  readonly weight: Parameter;
}

export function isKeptInBlocks(module: Module): module is Module & KeptInBlocks {
  if (!('format' in module && 'weight' in module)) return false;
  return module.weight instanceof Parameter && module.weight.dtype === 'u8';
}
