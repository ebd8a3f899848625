import type { HalfDType, Module, ProcessGroup } from '@shardwise/core/extend';
import type { Schedule } from '../pipeline-schedule/schedule.ts';
import type { LossOfPass } from './loss-of-pass.ts';
import type { LossWeight } from './loss-weight.ts';
import type { PipelinePlace } from './microbatch.ts';
import type { StageMarks } from './stage-marks.ts';

/** What all passes of a pipeline have in common. */
export interface PassSettings {
  readonly axis: string;
  readonly model: Module;
  readonly schedule: Schedule;
  readonly place: PipelinePlace;
  readonly marks: StageMarks;
  /** The rank of each of the model's parameters. */
  readonly owners: readonly number[];
  /** Null where the model's own output is the loss. */
  readonly loss: LossOfPass | null;
  readonly weight: LossWeight;
  /** Whether running statistics of batch norms move once a pass, and not by each microbatch. */
  readonly defersBatchNorm: boolean;
  /** In what f32 activations, and their gradients, travel between ranks; null: in f32. */
  readonly activationDtype: HalfDType | null;
  /** Messages between the ranks of the pipeline. */
  readonly group: ProcessGroup;
}
