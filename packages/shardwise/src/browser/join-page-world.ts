// A module of its own, which a rank loads by import() where it is not alone.
export { joinPageWorld } from '@shardwise/collectives';
