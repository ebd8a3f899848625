export { addLora } from './lora/add-lora.ts';
export type { LoraOptions } from './lora/lora-options.ts';
export { mergeLora, removeLora, unmergeLora } from './lora/merge-lora.ts';
