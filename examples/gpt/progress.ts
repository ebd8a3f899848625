import { z } from 'zod';

/** What a checkpoint keeps besides model and optimizer arrays; each part checks its own contents. */
export const progressSchema = z.object({ loader: z.json(), random: z.json(), optimizer: z.json() });
