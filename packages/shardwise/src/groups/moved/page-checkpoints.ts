// Old names of what is in the group `checkpoints` now and was in pages alone.
import { moved, type Moved } from './moved.ts';

/** @deprecated */ export const checkpointFile: Moved<'checkpoints.checkpointFile'> =
  /* @__PURE__ */ moved('checkpoints.checkpointFile');
/** @deprecated */ export type CheckpointSource = Moved<'checkpoints.CheckpointSource'>;
/** @deprecated */ export const download: Moved<'checkpoints.download'> =
  /* @__PURE__ */ moved('checkpoints.download');
/** @deprecated */ export const listCheckpoints: Moved<'checkpoints.list'> =
  /* @__PURE__ */ moved('checkpoints.list');
/** @deprecated */ export type PickedFiles = Moved<'checkpoints.PickedFiles'>;
/** @deprecated */ export const removeCheckpoints: Moved<'checkpoints.remove'> =
  /* @__PURE__ */ moved('checkpoints.remove');
