export { readAdapter, saveAdapter } from './lora/adapter-folder.ts';
