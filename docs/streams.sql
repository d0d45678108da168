-- Which stream of a vbucket carried what? Counts, flow-control bytes and seqnos, by stream id.
select stream_id, name, count(*) as frames, sum(flow_bytes)::bigint as flow_bytes,
       min(by_seqno) as first_seqno, max(by_seqno) as last_seqno
from 'frames.parquet'
where stream_id is not null and not response
group by all
order by all
limit 12
