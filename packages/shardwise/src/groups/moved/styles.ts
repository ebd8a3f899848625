// Old names of what is in the group `dist.styles` now.
import { moved, type Moved } from './moved.ts';

/** @deprecated */ export type ActivationChange = Moved<'dist.styles.ActivationChange'>;
/** @deprecated */ export type AxisPlace = Moved<'dist.styles.AxisPlace'>;
/** @deprecated */ export type BlockLayers = Moved<'dist.styles.BlockLayers'>;
/** @deprecated */ export const colwiseParallel: Moved<'dist.styles.colwiseParallel'> =
  /* @__PURE__ */ moved('dist.styles.colwiseParallel');
/** @deprecated */ export type ColwiseParallelOptions = Moved<'dist.styles.ColwiseParallelOptions'>;
/** @deprecated */ export type GatherAgainOptions = Moved<'dist.styles.GatherAgainOptions'>;
/** @deprecated */ export const gptTensorParallel: Moved<'dist.styles.gptTensorParallel'> =
  /* @__PURE__ */ moved('dist.styles.gptTensorParallel');
/** @deprecated */ export type GptTensorParallelOptions =
  Moved<'dist.styles.GptTensorParallelOptions'>;
/** @deprecated */ export const GridBlock: Moved<'dist.styles.GridBlock'> =
  /* @__PURE__ */ moved('dist.styles.GridBlock');
/** @deprecated */ export const gridCrossEntropy: Moved<'dist.styles.gridCrossEntropy'> =
  /* @__PURE__ */ moved('dist.styles.gridCrossEntropy');
/** @deprecated */ export const GridEmbedding: Moved<'dist.styles.GridEmbedding'> =
  /* @__PURE__ */ moved('dist.styles.GridEmbedding');
/** @deprecated */ export const GridLayerNorm: Moved<'dist.styles.GridLayerNorm'> =
  /* @__PURE__ */ moved('dist.styles.GridLayerNorm');
/** @deprecated */ export const GridLinear: Moved<'dist.styles.GridLinear'> =
  /* @__PURE__ */ moved('dist.styles.GridLinear');
/** @deprecated */ export const headParallel: Moved<'dist.styles.headParallel'> =
  /* @__PURE__ */ moved('dist.styles.headParallel');
/** @deprecated */ export type HeadParallelOptions = Moved<'dist.styles.HeadParallelOptions'>;
/** @deprecated */ export const inLayer: Moved<'dist.styles.inLayer'> =
  /* @__PURE__ */ moved('dist.styles.inLayer');
/** @deprecated */ export type LayerParameterOptions = Moved<'dist.styles.LayerParameterOptions'>;
/** @deprecated */ export type ModuleSpec = Moved<'dist.styles.ModuleSpec'>;
/** @deprecated */ export const ownRows: Moved<'dist.styles.ownRows'> =
  /* @__PURE__ */ moved('dist.styles.ownRows');
/** @deprecated */ export type ParallelStyle = Moved<'dist.styles.ParallelStyle'>;
/** @deprecated */ export const prepareModuleInput: Moved<'dist.styles.prepareModuleInput'> =
  /* @__PURE__ */ moved('dist.styles.prepareModuleInput');
/** @deprecated */ export const prepareModuleOutput: Moved<'dist.styles.prepareModuleOutput'> =
  /* @__PURE__ */ moved('dist.styles.prepareModuleOutput');
/** @deprecated */ export type RankGrid = Moved<'dist.styles.RankGrid'>;
/** @deprecated */ export const rowwiseParallel: Moved<'dist.styles.rowwiseParallel'> =
  /* @__PURE__ */ moved('dist.styles.rowwiseParallel');
/** @deprecated */ export type RowwiseParallelOptions = Moved<'dist.styles.RowwiseParallelOptions'>;
/** @deprecated */ export const sequenceParallel: Moved<'dist.styles.sequenceParallel'> =
  /* @__PURE__ */ moved('dist.styles.sequenceParallel');
/** @deprecated */ export type SequenceParallelOptions =
  Moved<'dist.styles.SequenceParallelOptions'>;
/** @deprecated */ export type StyleCollective = Moved<'dist.styles.StyleCollective'>;
/** @deprecated */ export type StylePlan = Moved<'dist.styles.StylePlan'>;
/** @deprecated */ export const vocabParallelCrossEntropy: Moved<'dist.styles.vocabParallelCrossEntropy'> =
  /* @__PURE__ */ moved('dist.styles.vocabParallelCrossEntropy');
/** @deprecated */ export type VocabParallelCrossEntropyOptions =
  Moved<'dist.styles.VocabParallelCrossEntropyOptions'>;
/** @deprecated */ export const vocabParallelEmbedding: Moved<'dist.styles.vocabParallelEmbedding'> =
  /* @__PURE__ */ moved('dist.styles.vocabParallelEmbedding');
/** @deprecated */ export type VocabParallelEmbeddingOptions =
  Moved<'dist.styles.VocabParallelEmbeddingOptions'>;
