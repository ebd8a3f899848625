/** The sizes of a Llama of 125 million parameters, whose file has 500 MB. */
export const modelSizes = {
  vocabSize: 32_000,
  hiddenSize: 768,
  intermediateSize: 2048,
  numHiddenLayers: 11,
  numAttentionHeads: 12,
  numKeyValueHeads: 12,
};

/** The same with little in each layer. */
export const smallSizes: typeof modelSizes = {
  vocabSize: 64,
  hiddenSize: 48,
  intermediateSize: 64,
  numHiddenLayers: 2,
  numAttentionHeads: 12,
  numKeyValueHeads: 12,
};
