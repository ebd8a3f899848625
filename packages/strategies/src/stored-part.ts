import { type Node, ParameterPart } from '@shardwise/core/extend';

/** A part beside which a rank may keep other values, that forward passes read. */
export abstract class StoredPart extends ParameterPart {
  /** What this rank keeps of the values that forward reads; `contents` is what is updated. */
  get stored(): Node {
    return this.contents;
  }
}
