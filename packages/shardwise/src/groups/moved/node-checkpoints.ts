// Old names of what is in the group `checkpoints` now and was in Node alone.
import { moved, type Moved } from './moved.ts';

/** @deprecated */ export const exportModel: Moved<'checkpoints.exportModel'> =
  /* @__PURE__ */ moved('checkpoints.exportModel');
/** @deprecated */ export const loadState: Moved<'checkpoints.loadStateFile'> =
  /* @__PURE__ */ moved('checkpoints.loadStateFile');
/** @deprecated */ export const loadTensors: Moved<'checkpoints.loadTensorFile'> =
  /* @__PURE__ */ moved('checkpoints.loadTensorFile');
/** @deprecated */ export const saveCheckpoint: Moved<'checkpoints.save'> =
  /* @__PURE__ */ moved('checkpoints.save');
/** @deprecated */ export type SaveCheckpointOptions = Moved<'checkpoints.SaveCheckpointOptions'>;
/** @deprecated */ export const saveState: Moved<'checkpoints.saveStateFile'> =
  /* @__PURE__ */ moved('checkpoints.saveStateFile');
/** @deprecated */ export const saveTensors: Moved<'checkpoints.saveTensorFile'> =
  /* @__PURE__ */ moved('checkpoints.saveTensorFile');
