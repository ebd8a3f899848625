// The entry point without Node: tokenizers, collators, metrics, and streams of any source.
export { Tokenizer, type DecodeOptions, type TokenizerFiles } from './tokenizer/tokenizer.ts';
export type { Encoding, EncodeOptions } from './tokenizer/encoding.ts';
export type { Offsets } from './tokenizer/aligned-text.ts';
export type { BatchEncoding, BatchOptions } from './tokenizer/batch-encoding.ts';
export type { ChatMessage, ChatOptions } from './tokenizer/chat-template.ts';
export type { SpecialTokens } from './tokenizer/tokenizer-config.ts';
export type { TextStream } from './tokenizer/text-stream.ts';
export { loadTokenizer } from './tokenizer/load-tokenizer.ts';
export { byteTokenizer, type ByteTokenizerOptions } from './tokenizer/byte-tokenizer.ts';
export { trainWordPieces, type WordPieceOptions } from './tokenizer/train-word-pieces.ts';
export { padCollate, type PadCollateOptions, type TokenCollate } from './collate/pad-collate.ts';
export {
  causalLanguageModelCollate,
  maskedLanguageModelCollate,
  type MaskedLanguageModelOptions,
  type MaskingTokenizer,
} from './collate/language-modeling.ts';
export {
  type ChatTokenizer,
  completionSample,
  conversationSample,
} from './collate/instructions.ts';
export {
  type LabeledWords,
  type PlacingTokenizer,
  tokenClassificationSample,
  type TokenClassificationOptions,
} from './collate/word-labels.ts';
export {
  type Question,
  type QuestionAnsweringOptions,
  type QuestionAnsweringSample,
  questionAnsweringSamples,
} from './collate/question-answering.ts';
export {
  predictedAnswer,
  type PredictedAnswer,
  type PredictedAnswerOptions,
  type ScoredSample,
} from './collate/predicted-answer.ts';
export { packDocuments, type PackDocumentsOptions } from './collate/pack-documents.ts';
export { tensorsOf } from './collate/tensors-of.ts';
export type { TokenRows } from './collate/token-rows.ts';
export { MeanMetric, Perplexity } from './metrics/mean.ts';
export { Accuracy, F1Score, type F1ScoreOptions, RocAuc } from './metrics/classification.ts';
export type { MetricOptions } from './metrics/metric.ts';
export { type ByteSource, memoryBytes } from './datasets/byte-source.ts';
export { concatRows, rowDataset, type Rows } from './datasets/rows.ts';
export { readCsv, readJsonLines, readTextLines } from './datasets/text-rows.ts';
export { textColumns } from './datasets/text-columns.ts';
export { readParquet } from './datasets/parquet-rows.ts';
export { readTar, type TarSample } from './datasets/tar-rows.ts';
export {
  TokenDataset,
  type TokenDatasetOptions,
  type TokenSource,
  type TokenWindow,
} from './datasets/token-dataset.ts';
export {
  type MixOptions,
  type RowStreamOptions,
  type ShuffleOptions,
  Stream,
} from './streams/stream.ts';
export type { RankStream, SplitOptions } from './streams/rank-stream.ts';
export type { RankStreamState } from './streams/epoch-place.ts';
export type { StreamState } from './streams/cursor.ts';
export { httpBytes } from './datasets/http-bytes.ts';
export { folderBytes } from './datasets/folder-bytes.ts';
export { httpFolder, type HttpOptions, type ModelFolder } from '@shardwise/core/extend';
export { decodeImage } from './images/decode-image.ts';
export { ImageProcessor } from './images/image-processor.ts';
export {
  type ImageFile,
  type ImageSample,
  processImages,
  type ProcessImagesOptions,
} from './images/process-images.ts';
export type { DecodeImageOptions, ImageDecoder, RgbImage } from './images/rgb-image.ts';
