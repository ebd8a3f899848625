// Old names of what is in the group `checkpoints` now and was in Node alone.
import { moved, type Moved } from './moved.ts';

/** @deprecated */ export const exportModel: Moved<'checkpoints.exportModel'> =
  /* @__PURE__ */ moved('checkpoints.exportModel');
/** @deprecated */ export const loadState: Moved<'checkpoints.loadState'> =
  /* @__PURE__ */ moved('checkpoints.loadState');
/** @deprecated */ export const loadTensors: Moved<'checkpoints.loadTensors'> =
  /* @__PURE__ */ moved('checkpoints.loadTensors');
/** @deprecated */ export const saveCheckpoint: Moved<'checkpoints.save'> =
  /* @__PURE__ */ moved('checkpoints.save');
/** @deprecated */ export type SaveCheckpointOptions = Moved<'checkpoints.SaveCheckpointOptions'>;
/** @deprecated */ export const saveState: Moved<'checkpoints.saveState'> =
  /* @__PURE__ */ moved('checkpoints.saveState');
/** @deprecated */ export const saveTensors: Moved<'checkpoints.saveTensors'> =
  /* @__PURE__ */ moved('checkpoints.saveTensors');
