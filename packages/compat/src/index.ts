export * as deepspeed from './deepspeed/index.ts';
