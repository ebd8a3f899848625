import { decode } from './decode.ts';
import type { EncodedImage } from './images.ts';

addEventListener('message', ({ data }: MessageEvent<EncodedImage>) => {
  void decode(data).then((decoded) => postMessage(decoded));
});
