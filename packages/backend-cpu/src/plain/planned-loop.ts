import type { ValueType } from '@shardwise/core/spec';
import type { Step } from '../compile/step.ts';

/** A step that JavaScript computes from memory into memory, and the types of its inputs. */
export interface PlannedLoop {
  readonly kind: 'plain';
  readonly step: Step;
  readonly inputs: readonly ValueType[];
}
