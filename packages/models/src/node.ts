export { fromPretrained, loadPretrained } from './weights/pretrained-on-disk.ts';
