import type { HalfDType, Module, ProcessGroup } from '@shardwise/core/extend';
import type { Schedule } from '../../pipeline-schedule/actions/schedule.ts';
import type { LossOfPass } from './loss-of-pass.ts';
import type { LossWeight } from './loss-weight.ts';
import type { PipelinePlace } from './microbatch.ts';
import type { StageMarks } from '../stages/stage-marks.ts';

/** The settings that all passes of a pipeline have in common. */
export interface PassSettings {
  readonly axis: string;
  readonly model: Module;
  readonly schedule: Schedule;
  readonly place: PipelinePlace;
  readonly marks: StageMarks;
  /** The rank that has each of the model's parameters. */
  readonly owners: readonly number[];
  /** The loss function. Null if the model's output is the loss. */
  readonly loss: LossOfPass | null;
  readonly weight: LossWeight;
  /** Whether running statistics of batch norms are updated once per pass, and not by each microbatch. */
  readonly defersBatchNorm: boolean;
  /** The dtype in which f32 activations and their gradients travel between ranks. Null: f32. */
  readonly activationDtype: HalfDType | null;
  /** The ranks of the pipeline. */
  readonly group: ProcessGroup;
}
