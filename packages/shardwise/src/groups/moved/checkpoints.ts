// Old names of what is in the group `checkpoints` now.
import { moved, type Moved } from './moved.ts';

/** @deprecated */ export type Checkpoint = Moved<'checkpoints.Checkpoint'>;
/** @deprecated */ export type CheckpointContents = Moved<'checkpoints.CheckpointContents'>;
/** @deprecated */ export type JsonValue = Moved<'checkpoints.JsonValue'>;
/** @deprecated */ export const loadCheckpoint: Moved<'checkpoints.load'> =
  /* @__PURE__ */ moved('checkpoints.load');
/** @deprecated */ export type LoadedOptimizer = Moved<'checkpoints.LoadedOptimizer'>;
/** @deprecated */ export const loadModel: Moved<'checkpoints.loadModel'> =
  /* @__PURE__ */ moved('checkpoints.loadModel');
/** @deprecated */ export const loadOptimizer: Moved<'checkpoints.loadOptimizer'> =
  /* @__PURE__ */ moved('checkpoints.loadOptimizer');
/** @deprecated */ export const loadStates: Moved<'checkpoints.loadStates'> =
  /* @__PURE__ */ moved('checkpoints.loadStates');
/** @deprecated */ export type LoadStatesOptions = Moved<'checkpoints.LoadStatesOptions'>;
/** @deprecated */ export type SavedOptimizer = Moved<'checkpoints.SavedOptimizer'>;
/** @deprecated */ export type SaveOptions = Moved<'checkpoints.SaveOptions'>;
/** @deprecated */ export type Stateful = Moved<'checkpoints.Stateful'>;
/** @deprecated */ export type Statefuls = Moved<'checkpoints.Statefuls'>;
/** @deprecated */ export type StatePath = Moved<'checkpoints.StatePath'>;
/** @deprecated */ export type StoredGroup = Moved<'checkpoints.StoredGroup'>;
/** @deprecated */ export type StoredState = Moved<'checkpoints.StoredState'>;
/** @deprecated */ export type StoredTensor = Moved<'checkpoints.StoredTensor'>;
/** @deprecated */ export type StoredTensors = Moved<'checkpoints.StoredTensors'>;
