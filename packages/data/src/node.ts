// The entry point for Node: what reads files.
export { loadTokenizer } from './files/load-tokenizer.ts';
