export * as deepspeed from './deepspeed/index.ts';
export * as accelerate from './accelerate/index.ts';
export * as horovod from './horovod/index.ts';
